"""`ANTClassifier` and `ANTRegressor`: adaptive neural trees for tables.

Tanno et al., "Adaptive Neural Trees" (ICML 2019): a tree whose edges transform features, whose
nodes route rows and whose leaves predict (`ant_tree`); it grows while held-out rows gain by it
(`ant_growth`), and is then refined as a whole.
"""

from __future__ import annotations

from nrs.baselines.ant_base import AdaptiveTreeEstimator
from nrs.tabular.classifier import TableClassifier
from nrs.tabular.parameters import parameters
from nrs.tabular.regressor import TableRegressor


@parameters
class ANTClassifier(AdaptiveTreeEstimator, TableClassifier):
    """Classify the rows of a raw table with an adaptive neural tree.

    Tables, targets and predictions are those of :class:`nrs.NRSClassifier`. The tree begins as one
    linear solver. At every leaf, breadth first, the loss on held-out rows decides whether it stays,
    gets one more transformer on its edge, or is split by a router into two leaves that begin with
    its solver; only the new parts are trained meanwhile. Then all parts are trained together, and
    the best epoch is kept (the grown tree, if no epoch is better).

    Parameters
    ----------
    preset : {"default", "paper"}
        ``"default"`` is for a CPU: at most 15 nodes and 8 modules on a path, 20 epochs a
        candidate, 40 of refinement with a falling learning rate and averaged weights.
        ``"paper"`` has the training schedule of the original: Adam at 1e-3, at most 50 epochs a
        candidate with a patience of 5, 100 of refinement, no averaging; the bounds (127 nodes, 20
        modules on a path) are a safeguard. Widths, batch size and the solver that a split inherits
        are choices of this package in both. Parameters that are None take the preset's value,
        which the fitted attribute of their name with a trailing underscore tells.
    width : int, optional
        Units of a transformer.
    router_width : int, optional
        Hidden units of a router; 0 makes it linear.
    batch_norm : bool, optional
        Whether transformers are normalised.
    max_depth : int, optional
        Most transformers and routers between the input and a leaf; 0 is a linear model.
    max_nodes : int, optional
        Most routers and leaves together; 1 never splits.
    grow_epochs, patience : int, optional
        Most epochs of a candidate, and epochs without improvement after which it is done.
    epochs : int, optional
        Epochs of refinement.
    batch_size, lr, weight_decay, scale : optional
        Of both phases; as in :class:`nrs.NRSClassifier`.
    validation_fraction : float, optional
        Part of the rows that is held out to decide. With 0 (and for fewer than 20 rows) the
        training rows decide, and the tree grows further than it should.
    metric, class_weight, categorical_features, text_features, random_state, n_jobs, device, \
verbose, callbacks
        As in :class:`nrs.NRSClassifier`; `metric` and `callbacks` are for refinement, growth goes
        by the loss.

    Attributes
    ----------
    classes_ : ndarray of the labels.
    tree_ : :class:`nrs.baselines.ant_tree.AdaptiveTree`
    growth_ : list of dict
        A row a visited leaf: `node`, `action` ("keep", "deepen", "split") and the held-out loss
        under each; None where a limit forbade it.
    nodes_ : list of dict
        A row a node: `kind`, `parent`, `transformers`, `depth`, `reach` (mean probability of
        getting there over the training rows) and `value` (mean target of those who do).
    history_ : :class:`nrs.training.History` of the refinement.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ANTClassifier(max_nodes=3, grow_epochs=10, epochs=20, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape, model.score(X, y) > 0.9
    ((150, 3), True)
    >>> [sorted(row) for row in model.growth_][0]
    ['action', 'deepen', 'keep', 'node', 'split']
    """


@parameters
class ANTRegressor(AdaptiveTreeEstimator, TableRegressor):
    """Predict one or several numbers with an adaptive neural tree.

    The prediction is the mean of the leaves' linear predictions, weighted by the probabilities of
    reaching them; its squared error on standardised targets is minimised. Parameters and
    attributes are those of :class:`ANTClassifier`, but for `class_weight` and `classes_`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ANTRegressor(max_nodes=3, grow_epochs=5, epochs=5, random_state=0).fit(X, y)
    >>> model.predict(X).shape, model.leaf_probabilities(X).shape[0]
    ((442,), 442)
    """
