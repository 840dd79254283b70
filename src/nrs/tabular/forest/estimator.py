"""What :class:`nrs.NRSClassifier`, :class:`nrs.NRSRegressor` and the ranker share: a forest."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nrs.tabular.estimator import TableEstimator
from nrs.tabular.parameters import HeadParameters, LayerParameters, WorkerParameters, parameters

if TYPE_CHECKING:
    from nrs.tabular.explain import Trees
    from nrs.tabular.export import TableModule
    from nrs.tabular.predict_file import Source
    from nrs.tabular.types import TableLike, TableModel


@parameters
class MemberEstimator(LayerParameters, HeadParameters, TableEstimator):
    """An estimator whose default is a forest; ``preset="single"`` is one network.

    It has trees, a PyTorch module and an ONNX file.
    """

    _has_forest = True

    def trees(self, n: int | None = None) -> Trees:
        """List the one-level oblique trees that the model is made of, the most important first.

        A tree asks whether a weighted sum of the few features of its subspace reaches a threshold;
        if so, it passes on by how much. The model is all of them and the layers that combine them.

        Parameters
        ----------
        n : int, optional
            Only the `n` most important ones.

        Returns
        -------
        :class:`nrs.explain.Trees`
            A table with the columns member, tree, columns, inputs, weights, threshold, yes and
            importance.

        Raises
        ------
        ValueError
            If the model has no such trees: a plain MLP, or a layer of depth 2.

        Examples
        --------
        >>> from nrs import NRSClassifier
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> model = NRSClassifier(preset="fast", random_state=0).fit(X, y)
        >>> trees = model.trees(3)
        >>> len(trees), trees.columns
        (3, ['member', 'tree', 'columns', 'inputs', 'weights', 'threshold', 'yes', 'importance'])
        """
        from nrs.tabular.explain import read_trees

        return read_trees(self, n)

    def to_torch(self, *, preprocessing: bool = False) -> TableModule:
        """Copy the model as a plain module, with every normalisation folded.

        The module takes encoded features, as ``model.encoder_.transform(X)`` gives them, and gives
        what :meth:`predict_proba` or (of a regressor) :meth:`predict` gives, (rows, outputs). It
        works with ``torch.export``, ``torch.compile`` and Captum.

        Parameters
        ----------
        preprocessing : bool, default=False
            Take raw rows of numbers and booleans (NaN is missing) instead of encoded features.

        Raises
        ------
        ValueError
            If preprocessing is asked for and the model has categories, dates or sparse rows.

        Examples
        --------
        >>> import torch
        >>> from nrs import NRSClassifier
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = NRSClassifier(preset="fast", random_state=0).fit(X, y)
        >>> module = model.to_torch(preprocessing=True)
        >>> module(torch.from_numpy(X[:2])).shape
        torch.Size([2, 3])
        """
        from nrs.tabular.export import to_torch

        return to_torch(self, preprocessing=preprocessing)

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its preprocessing to one ONNX file, atomically: raw rows in.

        The file has an input for each column, by its name and of shape (rows, 1): numbers,
        booleans (0 or 1), durations (seconds) and dates (seconds since 1970, UTC) as double with
        NaN for a missing cell, categories as texts with ``""`` for a missing one. A model fitted to
        an array of numbers, which has no names, has one input ``X`` (rows, columns) instead.
        :func:`nrs.tabular.export.onnx_inputs` makes them of a table.

        Outputs are ``label`` and ``probabilities`` (rows, classes); of several labels at once
        ``labels`` and ``probabilities``; of several columns of classes ``label_0``,
        ``probabilities_0``, ``label_1`` and so on; of a regressor ``prediction``; of a ranker
        ``score``. An underscore follows where a column has that name.

        Parameters
        ----------
        path : path
            Where to write; an existing file is replaced.

        Raises
        ------
        ValueError
            If the model was fitted to a sparse matrix, or is larger than ONNX allows.
        ImportError
            Without onnx; the extra ``export`` installs it.

        Examples
        --------
        >>> from nrs import NRSClassifier
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = NRSClassifier(preset="fast", random_state=0).fit(X, y)
        >>> model.to_onnx("iris.onnx")                                        # doctest: +SKIP
        >>> session = onnxruntime.InferenceSession("iris.onnx")              # doctest: +SKIP
        >>> label, probabilities = session.run(None, {"X": X[:1]})           # doctest: +SKIP
        """
        from nrs.tabular.export import to_onnx

        to_onnx(self, path)


@parameters
class ForestEstimator(WorkerParameters, MemberEstimator):
    """A forest that several processes train, and that predicts tables larger than memory."""

    def member_outputs(self, X: TableLike) -> np.ndarray:
        """What each member predicts.

        Parameters
        ----------
        X : a table as :meth:`predict` takes it.

        Returns
        -------
        ndarray
            Probabilities (n_members, n_rows, n_classes), or numbers (n_members, n_rows) or
            (n_members, n_rows, n_outputs).

        Raises
        ------
        ValueError
            If the model is not a forest.
        """
        check_is_fitted(self)
        return np.stack([self.target_.answer(one) for one in self.outputs(X, members=True)])

    def predict_file(
        self,
        source: Source,
        output: str | os.PathLike[str],
        *,
        probabilities: bool = False,
        interval: float | None = None,
        sets: float | None = None,
        keep: Sequence[str] = (),
        offset: str | None = None,
    ) -> int:
        """Predict a table chunk by chunk into a file, for tables larger than memory.

        Parameters
        ----------
        source : :class:`nrs.Table`, or path of a table file, a folder or a pattern of its parts
        output : path
            ``.parquet``, ``.arrow``, ``.csv`` or ``.jsonl``; written whole or not at all.
        probabilities : bool, default=False
            Also write the probability of each class.
        interval : float, optional
            Also write the interval that contains the number with this probability, such as 0.9.
        sets : float, optional
            Also write which classes belong to the set that holds the label with this probability.
        keep : sequence of str
            Input columns to copy to the output unchanged, such as an ID.
        offset : str, optional
            The column of offsets, of a model that was fitted with one.

        Returns
        -------
        int
            Rows written.
        """
        from nrs.tabular.predict_file import write_predictions

        model = cast("TableModel", self)
        return write_predictions(
            model, source, output,
            probabilities=probabilities, interval=interval, sets=sets, keep=list(keep),
            offset=offset,
        )  # fmt: skip
