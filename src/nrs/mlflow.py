"""Models in MLflow: logged with their signature, loaded as they were, served as a pyfunc.

A logged model holds the model file that `save` writes; nothing is pickled. MLflow itself (extra
``mlflow``) is imported when a function is called.
"""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nrs._util.optional import import_optional
from nrs._version import __version__
from nrs.files.load import load_model as load_file
from nrs.tabular.encode.category import CategoryEncoder
from nrs.tabular.predict_file import predict_frame, row_columns
from nrs.training import Callback, TrainState

if TYPE_CHECKING:
    import mlflow
    import pandas

    from nrs.tabular.types import TableModel

__all__ = ["LogCurve", "load_model", "log_model", "save_model", "signature"]

FILE = "model.safetensors"
_TYPES = {
    "number": "double", "boolean": "boolean", "duration": "double", "date": "datetime",
    "category": "string", "text": "string",
}  # fmt: skip


def _mlflow(module: str = "mlflow") -> Any:
    return import_optional(module, "nrs.mlflow", "mlflow")


def log_model(model: TableModel, name: str = "model", **options: Any) -> Any:
    """Log a fitted classifier, regressor or ranker to the active run, or to a new one.

    Parameters
    ----------
    model : fitted classifier, regressor or ranker
    name : str
        The name of the logged model.
    **options : what :func:`mlflow.pyfunc.log_model` takes besides, such as
        `registered_model_name`, `input_example`, `metadata` or `pip_requirements`.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Its ``model_uri`` is for :func:`load_model` and ``mlflow.pyfunc.load_model``.

    Raises
    ------
    ModuleNotFoundError
        If MLflow is not installed.
    """
    _mlflow()
    with tempfile.TemporaryDirectory() as folder:
        return _mlflow("mlflow.pyfunc").log_model(name=name, **_flavor(model, folder, options))


def save_model(model: TableModel, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a model as MLflow does, to a new folder; arguments as of :func:`log_model`."""
    with tempfile.TemporaryDirectory() as folder:
        _mlflow("mlflow.pyfunc").save_model(os.fspath(path), **_flavor(model, folder, options))


def _flavor(model: TableModel, folder: str, options: dict[str, Any]) -> dict[str, Any]:
    file = Path(folder, FILE)
    model.save(file)
    known = {
        "signature": signature(model),
        "pip_requirements": [f"neural-random-subspace[frames]=={__version__}"],
    }
    return {"loader_module": __name__, "data_path": str(file)} | known | options


def load_model(model_uri: str) -> TableModel:
    """The estimator that :func:`log_model` logged; its predictions are the same bits.

    Parameters
    ----------
    model_uri : str
        ``models:/…``, ``runs:/…``, or a folder.

    Raises
    ------
    ValueError
        If the model is none of nrs.
    """
    folder = Path(_mlflow("mlflow.artifacts").download_artifacts(model_uri))
    flavors = _mlflow("mlflow.models").Model.load(str(folder)).flavors
    pyfunc = flavors.get("python_function", {})
    if pyfunc.get("loader_module") != __name__:
        raise ValueError(
            f"{model_uri} was logged by {pyfunc.get('loader_module')}, not by nrs.mlflow; load it "
            "with mlflow.pyfunc.load_model"
        )
    return load_file(folder / pyfunc["data"])


def signature(model: TableModel) -> mlflow.models.ModelSignature:
    """What a model reads and answers, in MLflow's types.

    Durations are numbers of seconds. Columns that held numbers as categories, booleans with
    missing cells, and a ranker's queries take anything. A model fitted to an array without names
    reads an array.
    """
    types, models = _mlflow("mlflow.types"), _mlflow("mlflow.models")
    answers = ["probabilities"] if hasattr(model, "predict_proba") else []
    params = [types.ParamSpec(name, "boolean", True) for name in answers]
    params += [
        # 0 is none: a parameter has a type and a default.
        types.ParamSpec(name, "double", 0.0)
        for name, method in (("interval", "predict_interval"), ("sets", "sets_around"))
        if hasattr(model, method)
    ]
    if hasattr(model, "feature_names_in_"):
        columns = row_columns(model).items()
        inputs = types.Schema([types.ColSpec(_type_of(model, n, k), n) for n, k in columns])
    else:
        import numpy as np

        shape = (-1, model.n_features_in_)
        inputs = types.Schema([types.TensorSpec(np.dtype(np.float64), shape)])
    return models.ModelSignature(
        inputs=inputs, params=types.ParamSchema(params) if params else None
    )


def _type_of(model: TableModel, name: str, kind: str) -> Any:
    encoder, anything = model.encoder_, name in model.joined_by()
    if name in encoder.column_names:
        place = encoder.column_names.index(name)
        plan, one = encoder.plans.get(place), encoder.column_encoder(place)
        if plan is not None and plan.reads_text:
            return "string"
        anything = isinstance(one, CategoryEncoder) and one.held != ["text"]
        anything |= kind == "boolean" and bool(one.absent)
    return _mlflow("mlflow.types.schema").AnyType() if anything else _TYPES[kind]


class Pyfunc:
    """A model as MLflow calls it: rows in, the columns of ``nrs predict`` out."""

    def __init__(self, model: TableModel) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> pandas.DataFrame:
        """Predictions of a frame, or of an array by a model of arrays."""
        import pandas

        columns, given = row_columns(self.model), dict(params or {})
        frame = pandas.DataFrame(model_input)
        if not hasattr(self.model, "feature_names_in_"):
            frame.columns = pandas.Index(list(columns))
        for name, kind in columns.items():
            if kind == "duration" and frame[name].dtype.kind in "if":
                frame = frame.assign(**{name: pandas.to_timedelta(frame[name], unit="s")})
        return predict_frame(
            self.model,
            frame,
            probabilities=given.get("probabilities", True),
            interval=given.get("interval") or None,
            sets=given.get("sets") or None,
        )


def _load_pyfunc(path: str) -> Pyfunc:
    """What MLflow calls by name."""
    return Pyfunc(load_file(path))


class LogCurve(Callback):
    """Log the history of a fit as metrics of an MLflow run: losses, scores, rate and time by epoch.

    Parameters
    ----------
    run_id : str, optional
        The run; the active one by default, or a new one.

    Raises
    ------
    ModuleNotFoundError
        When training begins, if MLflow is not installed.
    """

    def __init__(self, run_id: str | None = None) -> None:
        self.run_id = run_id

    def on_train_begin(self, state: TrainState) -> None:
        _mlflow()

    def on_epoch_end(self, state: TrainState) -> None:
        row = state.history.rows[-1]
        shown = {k: float(v) for k, v in row.items() if k != "epoch" and math.isfinite(v)}
        _mlflow().log_metrics(shown, step=state.epoch, run_id=self.run_id)
