"""`MLPClassifier` and `MLPRegressor`: the table network without the NRS layer.

Loop, encoding, head and presets are those of :class:`nrs.NRSClassifier`, so that what differs in
a comparison is the layer alone. The paper's MLP-2 and MLP-3 have two and three hidden layers;
MLP-D drops inputs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nrs.tabular.classifier import TableClassifier
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.parameters import CheckpointParameters, HeadParameters, parameters
from nrs.tabular.recipe import Recipe
from nrs.tabular.regressor import TableRegressor

# The paper's MLP-D has "p = 0.8". In the dropout paper, which it cites, p is the part that is
# kept; read as the argument of nn.Dropout, it is the part that is dropped, which would explain
# the poor accuracies on few features.
INPUT_DROPOUT = {"keep 80%": 0.2, "drop 80%": 0.8}


@parameters
class _MLPEstimator(HeadParameters, CheckpointParameters, TableEstimator):
    n_layers: int = 2
    input_dropout: float | str = 0.0

    def _chosen(self) -> dict[str, Any]:
        dropout = self.input_dropout
        if isinstance(dropout, str):
            if dropout not in INPUT_DROPOUT:
                raise ValueError(
                    f"input_dropout must be a probability or one of {tuple(INPUT_DROPOUT)}; got "
                    f"{dropout!r}"
                )
            dropout = INPUT_DROPOUT[dropout]
        return super()._chosen() | {"n_mul": 0, "input_dropout": dropout}

    def resolve(self, rows: int, features: int) -> Recipe:
        recipe = super().resolve(rows, features)
        if self.hidden is not None:
            return recipe
        if self.n_layers < 1:
            raise ValueError(f"n_layers must be at least 1; got {self.n_layers}")
        return replace(recipe, hidden=recipe.hidden[:1] * self.n_layers)


@parameters
class MLPClassifier(_MLPEstimator, TableClassifier):
    """Classify the rows of a raw table with a multi-layer perceptron with batch normalisation.

    Parameters
    ----------
    n_layers : int
        Hidden layers of the preset's width: 2 for the paper's MLP-2, 3 for its MLP-3.
    input_dropout : float, "keep 80%" or "drop 80%"
        Probability of dropping an input in training. The two names are the two readings of
        "p = 0.8" for the paper's MLP-D, 0.2 and 0.8.
    hidden : int or sequence of int, optional
        Widths of the hidden layers, instead of `n_layers`.
    preset, dropout, scale, epochs, batch_size, lr, weight_decay, validation_fraction, patience, \
metric, class_weight, categorical_features, text_features, random_state, n_jobs, device, verbose, \
callbacks, checkpoint
        As of :class:`nrs.NRSClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MLPClassifier(n_layers=3, epochs=20, random_state=0).fit(X, y)
    >>> model.hidden_, model.score(X, y) > 0.9
    ((256, 256, 256), True)
    """


@parameters
class MLPRegressor(_MLPEstimator, TableRegressor):
    """Predict one or several numbers with a multi-layer perceptron.

    Parameters are those of :class:`MLPClassifier`, but for `class_weight`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> MLPRegressor(epochs=20, random_state=0).fit(X, y).predict(X).shape
    (442,)
    """
