"""Predictions of a saved table model for the rows of a file, for ``nrs predict``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nrs.datasets.table_file_errors import TableFileError
from nrs.datasets.table_files import column_names, stream_table_file
from nrs.datasets.table_output import write_table_file
from nrs.files.schema import target_values
from nrs.files.scores import Judged, beside, scored
from nrs.files.targets import JudgedTargets, SeveralTargets, labelled_rows
from nrs.tabular.classifier import NRSClassifier
from nrs.tabular.regressor import NRSRegressor
from nrs.tabular.targets import ClassTarget
from nrs.training import ModelFileError, read_model


def load_model(path: str | os.PathLike[str]) -> NRSClassifier | NRSRegressor:
    """Read a table model, whichever estimator saved it.

    Raises
    ------
    ModelFileError
        If the file is not a whole model file of a table.
    """
    name = read_model(path, kind="table").header["estimator"]
    for kind in (NRSClassifier, NRSRegressor):
        if name == kind.__name__:
            return kind.load(path)
    raise ModelFileError(
        f"{os.fspath(path)} must hold a model of NRSClassifier or NRSRegressor, however: {name}; "
        "load it with the class that saved it"
    )


def predict_chunks(
    model: Any,
    source: Any,
    *,
    probabilities: bool = False,
    interval: float | None = None,
    keep: Sequence[str] = (),
    encoding: str = "utf-8",
) -> Iterator[Any]:
    """Predict the rows of a table file, chunk after chunk, with bounded memory.

    Columns that the model was not fitted with are left out.

    Parameters
    ----------
    model : a fitted estimator
    source : path, "-" for standard input, parts, or :class:`nrs.Table`
        See :func:`nrs.datasets.table_files.stream_table_file`.
    probabilities : bool
        Give the probability of each class too.
    interval : float, optional
        Give the interval that holds the number with this probability too.
    keep : sequence of str
        Columns of the file to hand through, as they are.
    encoding : str
        Of a text file.

    Yields
    ------
    pyarrow.Table
        The kept columns, then ``prediction``, then ``probability_<class>`` or ``low`` and
        ``high``. Of several targets each column ends in the target's name, as in
        ``prediction_price`` and ``probability_ill_yes``; without names in a number from 0.

    Raises
    ------
    nrs.datasets.table_file_errors.TableFileError
        If the table cannot be read, lacks a column, or a column holds other values than in the
        fit.
    ValueError
        If probabilities or an interval are asked of a model that has none, or a kept column has
        the name of a prediction.
    """
    import pyarrow

    if probabilities and not hasattr(model, "predict_proba"):
        raise ValueError("probabilities need a classifier, however: the model predicts numbers")
    if interval is not None and not hasattr(model, "predict_interval"):
        raise ValueError("an interval needs a regressor, however: the model predicts classes")
    columns = _columns(model, source, encoding)
    several = SeveralTargets.of_model(model)
    for chunk in stream_table_file(source, columns, also=keep, encoding=encoding):
        X = _features(model, chunk.select(range(len(columns))), list(columns), source)
        found = _predicted(model, several, X, probabilities, interval)
        kept = dict(zip(keep, chunk.columns[len(columns) :], strict=True))
        if kept.keys() & found.keys():
            raise ValueError(
                "kept columns must have other names than the predictions, however: both have "
                f"{min(kept.keys() & found.keys())!r}; rename the column, or do not keep it"
            )
        yield pyarrow.table(kept | found)


def write_predictions(
    model: Any, source: Any, output: str | os.PathLike[str], **options: Any
) -> int:
    """Predict the rows of a table and write the predictions to a file, with bounded memory.

    Parameters
    ----------
    output : path
        Its name decides the format, such as ``.parquet``; it is there whole or not at all.
    options : those of :func:`predict_chunks`

    Returns
    -------
    int
        Rows written.

    Raises
    ------
    ValueError, OSError
        As :func:`predict_chunks` and :func:`nrs.datasets.table_output.write_table_file`.
    """
    n_rows = 0
    with write_table_file(output) as writer:
        for chunk in predict_chunks(model, source, **options):
            writer.write(chunk)
            n_rows += chunk.num_rows
    return n_rows


def _predicted(
    model: Any, several: SeveralTargets | None, X: Any, probabilities: bool, interval: float | None
) -> dict[str, np.ndarray]:
    """The columns of predictions, by name."""
    if several is not None:
        return _predict_several(model, several, X, probabilities, interval)
    found: dict[str, np.ndarray] = {}
    if probabilities:
        chances = model.predict_proba(X)
        found["prediction"] = model.classes_[chances.argmax(1)]
        for place, label in enumerate(model.classes_.tolist()):
            found[f"probability_{label}"] = chances[:, place]
    else:
        found["prediction"] = model.predict(X)
    if interval is not None:
        found["low"], found["high"] = model.predict_interval(X, interval)
    return found


def _predict_several(
    model: Any, several: SeveralTargets, X: Any, probabilities: bool, interval: float | None
) -> dict[str, np.ndarray]:
    if probabilities:
        chances = model.predict_proba(X)
        labels = several.predicted(chances > 0.5)
        return labels | several.predicted(chances, "probability", chances=True)
    found = several.predicted(model.predict(X))
    if interval is not None:
        low, high = model.predict_interval(X, interval)
        found |= several.predicted(low, "low") | several.predicted(high, "high")
    return found


def judge_file(
    model: Any,
    source: Any,
    target: str | Sequence[str],
    *,
    encoding: str = "utf-8",
) -> tuple[Judged | JudgedTargets, int]:
    """Predict a labelled table and set the predictions beside the truth.

    Parameters
    ----------
    model : a fitted estimator
    source : path, or "-" for standard input
    target : str or sequence of str
        The column with the truth; of several targets all of them, in the order of the fit.
    encoding : str
        Of a text file.

    Returns
    -------
    judged : Judged, or JudgedTargets of several
    unlabelled : int
        Rows without a value of a target, which were left out.

    Raises
    ------
    ValueError
        As :func:`predict_chunks`, or if no row has a value of the target, or none a class that the
        model knows.
    """
    names = [target] if isinstance(target, str) else list(target)
    several = SeveralTargets.of_model(model, names)
    if several is None and len(names) > 1:
        raise ValueError(f"the model predicts one target, however: {', '.join(names)}; name one")
    names = names if several is None else several.names
    columns = _columns(model, source, encoding, but=names)
    kinds = {names[0]: _target_kind(model)} if several is None else several.kinds
    truths, predicted, places = [], [], []
    at = 0
    for chunk in stream_table_file(source, columns | kinds, encoding=encoding):
        labelled = labelled_rows(chunk, names)
        rows = np.flatnonzero(labelled.to_numpy(zero_copy_only=False))
        part = chunk.filter(labelled) if len(rows) < chunk.num_rows else chunk
        if len(rows):
            X = _features(model, part, list(columns), source)
            if several is None:
                truths.append(_truth(model, part.column(names[0])))
            else:
                truths.append(several.encode(part))
            predicted.append(scored(model, X))
            places.append(at + rows)
        at += chunk.num_rows
    if not places:
        raise TableFileError(
            f"{source} must have rows with a value of {', '.join(names)!r}, however: none has "
            "one; check the file"
        )
    rows = np.concatenate(places)
    values, truth = np.concatenate(predicted), np.concatenate(truths)
    if several is None and isinstance(model.target_, ClassTarget):
        known = model.classes_.tolist()
        if not np.isin(truth, model.classes_).any():
            raise TableFileError(
                f"{names[0]!r} must hold classes that the model knows, such as {known[0]!r}, "
                f"however: it holds none, but {truth.tolist()[0]!r}; name the column with --target"
            )
    judged = beside(model, values, truth, os.path.basename(str(source)), rows, several)
    return judged, at - len(rows)


def read_rows(model: Any, source: Any, most: int = 20_000, *, encoding: str = "utf-8") -> Any:
    """The first rows of a table file as the model reads them: a ``pyarrow.Table``."""
    import pyarrow

    columns = _columns(model, source, encoding)
    chunks, n_rows = [], 0
    for chunk in stream_table_file(source, columns, encoding=encoding):
        chunks.append(chunk)
        n_rows += chunk.num_rows
        if n_rows >= most:
            break
    return pyarrow.concat_tables(chunks).slice(0, most)


def _target_kind(model: Any) -> str:
    if not isinstance(model.target_, ClassTarget):
        return "number"
    kind = model.classes_.dtype.kind
    return "boolean" if kind == "b" else "number" if kind in "iuf" else "category"


def _truth(model: Any, column: Any) -> np.ndarray:
    if not isinstance(model.target_, ClassTarget):
        return target_values(column, "regression")
    truth = target_values(column, "classification")
    kind = model.classes_.dtype.kind
    # A file with types of its own may hold numbers where the model knows text.
    return truth.astype(str) if kind in "UO" else truth.astype(model.classes_.dtype)


def _columns(model: Any, source: Any, encoding: str, but: Sequence[str] = ()) -> dict[str, str]:
    """The columns that the model reads, and their kinds; without names all `but` the targets."""
    kinds = model.encoder_.kinds_
    if hasattr(model, "feature_names_in_"):
        return dict(zip(model.feature_names_in_.tolist(), kinds, strict=True))
    if str(source) == "-":
        raise ValueError(
            "a model of columns without names needs a file, however: standard input; save it first"
        )
    names = [name for name in column_names(source, encoding=encoding) if name not in but]
    if len(names) != len(kinds):
        raise TableFileError(
            f"{source} must have {len(kinds)} columns{' beside the target' if but else ''} as in "
            f"the fit, however: it has {len(names)}; leave out the others"
        )
    return dict(zip(names, kinds, strict=True))


def _features(model: Any, chunk: Any, names: list[str], source: Any) -> Any:
    table = chunk.select(names)
    if hasattr(model, "feature_names_in_"):
        return table
    # Fitted to an array: given one again, its columns are known by position.
    columns = [table.column(name).to_pandas().to_numpy() for name in names]
    return np.column_stack(columns)
