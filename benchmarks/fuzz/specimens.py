"""One valid model file of every kind: what saved it, what loads it, and rows that it answers."""

from __future__ import annotations

import functools
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.sparse import csr_matrix

import nrs
from benchmarks.fuzz.forged import facts_of, signed
from nrs.baselines import ant, mlp, ndf
from nrs.points.predict import class_probabilities, load_encoder
from nrs.points.registry import create
from nrs.ranking.ranker import NRSRanker
from nrs.tabular.encode.category import CategoryEncoder
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.targets import Target
from nrs.training import ModelFile, read_model
from nrs.vision.data import Preparation
from nrs.vision.models import ModelSettings, build_model
from nrs.vision.predict import ImageModel

N_ROWS = 60
CELLS: dict[str, list[Any]] = {
    "number": [0.0, 1.5, None, 1e300, -1e300],
    "boolean": [True, False, None, True, False],
    "duration": [timedelta(hours=1), timedelta(0), None, timedelta(days=9999), timedelta(days=-9)],
    "text": ["late parcels again", "", None, "x y " * 9_999, "words that are new"],
    "date": [datetime(2020, 5, 6, 7), datetime(1, 1, 1), None, datetime(9999, 12, 31), None],
}
# Wider tables are as rare as they are slow.
MAX_COLUMNS = 2_000


@dataclass(frozen=True)
class Specimen:
    """A valid file, and what a loaded model answers: arrays that must be finite."""

    file: ModelFile
    load: Callable[[Path], Any]
    answer: Callable[[Any], list[np.ndarray]]

    @functools.cached_property
    def facts(self) -> dict[str, Any]:
        return facts_of(self.file)

    @functools.cached_property
    def content(self) -> bytes:
        return signed(self.facts, self.file.tensors)


def mixed(n: int = N_ROWS) -> pd.DataFrame:
    """Columns of every kind, some with missing cells."""
    rng = np.random.default_rng(0)
    start = np.datetime64("2020-01-01T00:00")
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "gaps": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "flag": rng.random(n) < 0.5,
            "colour": rng.choice(["red", "green", "blue"], n),
            "two": rng.choice(["a", "b"], n),
            "when": start + rng.integers(0, 10**6, n).astype("timedelta64[m]"),
            "took": rng.integers(1, 10**5, n).astype("timedelta64[s]"),
            "more": [f"level {place}" for place in rng.integers(0, 9, n)],
        }
    )
    frame.loc[::7, ["colour", "when"]] = None
    return frame


def rows_for(encoder: TableEncoder) -> Any:
    """Rows with the columns of an encoder: ordinary, missing and wild cells."""
    if encoder.is_sparse_:
        return csr_matrix(np.eye(4, encoder.n_features_in_) * 1e30)
    columns = []
    for index, kind in enumerate(encoder.kinds_):
        cells = CELLS.get(kind)
        if cells is None:
            one = encoder.column_encoder(index)
            assert isinstance(one, CategoryEncoder)
            levels: list[Any] = list(one.levels[:2])
            free = not one.held or "text" in one.held
            cells = (levels + ["unseen"] * free + [None] * 5)[:5]
        columns.append(pd.Series(cells, dtype=object))
    frame = pd.concat(columns, axis=1)
    frame.columns = pd.Index(encoder.column_names, dtype=object)
    return frame if encoder.names is not None else frame.to_numpy()


def answer_table(model: Any) -> list[np.ndarray]:
    """Everything that a table's model says about a few rows."""
    if model.encoder_.n_features_in_ > MAX_COLUMNS:
        return []
    rows = rows_for(model.encoder_)
    if isinstance(model, NRSRanker):
        return [model.predict(rows, np.zeros(rows.shape[0], int))]
    has_classes = hasattr(model, "predict_proba")
    found = [model.predict_proba(rows) if has_classes else model.predict(rows)]
    if model.recipe_.to_dict().get("members"):
        found.append(model.member_outputs(rows))
        if isinstance(model, nrs.NRSRegressor):
            found += model.predict(rows, return_std=True)
    if getattr(model, "_residuals", None) is not None:
        found += [model.predict_set(rows)] if has_classes else model.predict_interval(rows)
    return found


def _fitted(model: Any, X: Any, y: Any, **more: Any) -> Specimen:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.safetensors"
        model.set_params(epochs=2, random_state=0, verbose=0).fit(X, y, **more)
        model.about_ = _about(model.target_)
        model.save(path)
        file = read_model(path)
    # A few of the quantiles are as good, and quicker to read.
    if file.header.get("residuals"):
        file.header["residuals"] = file.header["residuals"][:20]
    return Specimen(file, type(model).load, answer_table)


def _about(target: Target) -> dict[str, Any]:
    """What the command line notes of a fit."""
    scores = {"r2": 0.5, "rmse": 1.0}
    about: dict[str, Any] = {"target": "y", "rows": N_ROWS, "scored_on": None, "scores": scores}
    if target.several:
        names = [f"y{place}" for place in range(target.n_outputs)]
        about |= {"target": names, "scores_by_target": dict.fromkeys(names, scores)}
    if target.kind == "multilabel":
        about["labels"] = [["no", "yes"]] * target.n_outputs
    return about


def _numbers(columns: int = 4) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(N_ROWS, columns))


def _notes() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    words = ["late", "parcel", "again", "broken", "on", "time", "never"]
    return mixed().assign(note=[" ".join(rng.choice(words, 5)) for _ in range(N_ROWS)])


def _sparse() -> csr_matrix:
    X = _numbers(6)
    return csr_matrix(X * (X > 0))


def _ranked(model: Any) -> Specimen:
    X = mixed().assign(query=np.repeat(np.arange(N_ROWS // 6), 6))
    return _fitted(model, X, np.arange(N_ROWS) % 3, qid="query")


def _image(settings: ModelSettings) -> Specimen:
    header = {
        "model": asdict(settings),
        "picture": asdict(Preparation(size=32, resize=None)),
        "classes": ["a", "b", "c"],
        "history": {"rows": []},
    }
    tensors = build_model(settings, 3, seed=0).state_dict()
    return Specimen(_file("image", header, tensors), ImageModel.load, _answer_image)


def _answer_image(model: ImageModel) -> list[np.ndarray]:
    pictures = np.random.default_rng(2).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    return [model.probabilities(list(pictures)).numpy()]


def _points(name: str, **arguments: Any) -> Specimen:
    model = {"name": name, "num_classes": 2, "normals": False, **arguments}
    header = {"model": model, "classes": ["ball", "stick"], "points": 32, "test": {"top1": 90.0}}
    tensors = create(**model).state_dict()
    return Specimen(_file("points", header, tensors), load_encoder, _answer_points)


def _answer_points(loaded: Any) -> list[np.ndarray]:
    encoder, header = loaded
    if header["points"] > 1024:
        return []
    generator = torch.Generator().manual_seed(3)
    clouds = torch.randn(2, header["points"], encoder.channels, generator=generator)
    return [class_probabilities(encoder, clouds).numpy()]


def _file(kind: str, header: dict[str, Any], tensors: dict[str, torch.Tensor]) -> ModelFile:
    arrays = {name: tensor.clone().numpy() for name, tensor in tensors.items()}
    return ModelFile(kind, header, arrays, made={"seed": 0})


_CLASSES, _HALVES = np.arange(N_ROWS) % 3, np.arange(N_ROWS) % 2
_LABELS = np.stack([_HALVES, _CLASSES > 0, _CLASSES > 1], 1).astype(int)
_TARGETS = _numbers(2)
_TREE = {"n_trees": 2, "tree_depth": 3, "n_features": 8}

TABLES: dict[str, Callable[[], Specimen]] = {
    "classes": lambda: _fitted(
        nrs.NRSClassifier(preset="fast", hidden=8), mixed(), np.array(list("abc"))[_CLASSES]
    ),
    "two classes": lambda: _fitted(nrs.NRSClassifier(preset="fast"), _numbers(), _HALVES),
    "boolean classes": lambda: _fitted(
        nrs.NRSClassifier(preset="single", hidden=8), mixed(), _HALVES > 0
    ),
    "float classes": lambda: _fitted(
        nrs.NRSClassifier(preset="single", hidden=8, class_weight={0.0: 2.0, 1.0: 1.0}),
        _numbers(),
        _HALVES * 1.0,
    ),
    "text": lambda: _fitted(
        nrs.NRSClassifier(preset="fast", hidden=8, text_features=["note"]), _notes(), _CLASSES
    ),
    "labels": lambda: _fitted(nrs.NRSClassifier(preset="fast", hidden=8), mixed(), _LABELS),
    "number": lambda: _fitted(
        nrs.NRSRegressor(preset="fast", hidden=8), mixed(), _TARGETS[:, 0] * 1e6
    ),
    "numbers": lambda: _fitted(nrs.NRSRegressor(preset="fast", hidden=8), mixed(), _TARGETS),
    "paper": lambda: _fitted(
        nrs.NRSClassifier(preset="paper", n_mul=1, hidden=8), mixed(), _CLASSES
    ),
    "paper number": lambda: _fitted(
        nrs.NRSRegressor(preset="paper", n_mul=1, hidden=8), _numbers(), _TARGETS[:, 0]
    ),
    "sparse": lambda: _fitted(nrs.NRSClassifier(preset="fast"), _sparse(), _CLASSES),
    "sparse single": lambda: _fitted(
        nrs.NRSRegressor(preset="single", hidden=8), _sparse(), _TARGETS
    ),
    "many levels": lambda: _fitted(
        nrs.NRSClassifier(preset="single", hidden=8),
        pd.DataFrame({"name": [f"n{place // 2 if place < 8 else place}" for place in range(120)]}),
        np.arange(120) % 2,
    ),
    "level means": lambda: _fitted(
        nrs.NRSRegressor(preset="fast", hidden=8),
        pd.DataFrame({"name": [f"n{place % 70}" for place in range(350)]}),
        np.arange(350) % 70 + np.arange(350) % 3,
    ),
    "constant": lambda: _fitted(nrs.NRSClassifier(preset="fast"), np.ones((N_ROWS, 1)), _HALVES),
    "ranker": lambda: _ranked(NRSRanker(preset="fast", hidden=8)),
    "scaled ranker": lambda: _ranked(
        NRSRanker(preset="single", hidden=8, query_scale="standard")
    ),
    "mlp": lambda: _fitted(mlp.MLPClassifier(hidden=8), mixed(), _CLASSES),
    "mlp numbers": lambda: _fitted(mlp.MLPRegressor(hidden=8), mixed(), _TARGETS),
    "forest": lambda: _fitted(ndf.NDFClassifier(**_TREE), mixed(), _CLASSES),
    "forest number": lambda: _fitted(ndf.NDFRegressor(**_TREE), _numbers(), _TARGETS[:, 0]),
    "tree": lambda: _fitted(ant.ANTClassifier(width=4, grow_epochs=1), mixed(), _CLASSES),
    "tree number": lambda: _fitted(
        ant.ANTRegressor(width=4, grow_epochs=1), _numbers(), _TARGETS[:, 0]
    ),
}  # fmt: skip
IMAGES: dict[str, Callable[[], Specimen]] = {
    "nrs": lambda: _image(ModelSettings("cifar/resnet20", head="nrs", n_mul=2)),
    "compact": lambda: _image(ModelSettings("cifar/resnet20", head="compact", sketch=64, reduce=8)),
    "isqrt": lambda: _image(
        ModelSettings("cifar/resnet20", head="isqrt", reduce=8, excite="nrs")
    ),
}  # fmt: skip
POINTS: dict[str, Callable[[], Specimen]] = {
    "pointnet": lambda: _points(
        "pointnet", subspace={"n_mul": 1, "n_per": 32, "seed": 3}, dropout=0.4
    ),
    "dgcnn": lambda: _points("dgcnn", subspace=None, k=8),
    "rscnn": lambda: _points("rscnn", subspace=None, k=[8, 8], centres=[16, 8], radii=[0.2, 0.4]),
}
ALL = TABLES | IMAGES | POINTS


@functools.cache
def specimen(name: str) -> Specimen:
    """The valid file of that name, made once."""
    return ALL[name]()
