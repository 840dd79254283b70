"""Random tables: read, fitted and predicted, or refused in words.

Laws: only ValueError and TypeError, with a message; answers finite and one per row; the input as
it was; a row's answer the same alone and in any company; a fit that fails changes nothing.
"""

from __future__ import annotations

import copy
import string
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy.sparse import csr_matrix

import nrs
from benchmarks.fuzz.run import BrokenLawError

# Tables predicted by each model.
PREDICTED = 20
REFUSALS = (ValueError, TypeError)
TEXTS = ["", " ", "a", "A", "01", "1", "1.0", "-1e3", "nan", "NaN", "None", "true", "2020-01-31",
         "31/01/2020", "ä\u0301", "\x00", "\x1b[31m", "a,b", '"', "=1+1", "x" * 300, "\U0001f600",
         "1,5", "inf", "\ud800"]  # fmt: skip
PLAIN = {"string", "floating", "integer", "boolean", "categorical", "datetime64", "timedelta64"}
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, -1e300, 1.7e308, 5e-324, 99999.0, 2.0**53 + 2]

Column = Any
Draw = Callable[[np.random.Generator, int], Column]


def _pick(rng: np.random.Generator, cells: list[Any], n: int) -> list[Any]:
    few = [cells[k] for k in rng.integers(len(cells), size=rng.integers(1, 6))]
    return [few[k] for k in rng.integers(len(few), size=n)]


def _holes(rng: np.random.Generator, cells: list[Any], hole: Any = None) -> list[Any]:
    if rng.random() < 0.6:
        return cells
    missing = rng.random(len(cells)) < rng.choice([0.05, 0.5, 1.0])
    return [hole if gone else cell for cell, gone in zip(cells, missing, strict=True)]


def _normal(rng: np.random.Generator, n: int) -> np.ndarray:
    values = rng.normal(rng.normal() * 10.0 ** rng.integers(-3, 4), 10.0 ** rng.integers(-6, 7), n)
    if rng.random() < 0.3:
        values[rng.integers(n)] = rng.choice(NUMBERS)
    if rng.random() < 0.3:
        values[rng.random(n) < 0.2] = np.nan
    with np.errstate(over="ignore"):
        return values.astype(rng.choice([np.float64, np.float32]))


def _extreme(rng: np.random.Generator, n: int) -> np.ndarray:
    values = np.array(_pick(rng, NUMBERS, n))
    if rng.random() < 0.1:
        values[rng.integers(n)] = rng.choice([np.inf, -np.inf])
    return values


def _integers(rng: np.random.Generator, n: int) -> np.ndarray:
    kind = np.dtype(rng.choice(["i1", "u1", "i4", "i8", "u8"]))
    bounds = np.iinfo(kind)
    wide = rng.random() < 0.2
    low, high = (bounds.min, bounds.max) if wide else (max(bounds.min, -5), 5)
    return rng.integers(low, high, n, dtype=kind, endpoint=True)


def _moments(rng: np.random.Generator, n: int) -> list[Any]:
    start = datetime(2020, 1, 1) + timedelta(days=int(rng.integers(-20000, 20000)))
    steps = rng.integers(0, 10 ** rng.integers(1, 9), n).tolist()
    cells: list[Any] = [start + timedelta(seconds=step) for step in steps]
    if rng.random() < 0.3:
        cells = [cell.date() for cell in cells]
    elif rng.random() < 0.2:
        cells = [cell.replace(tzinfo=UTC) for cell in cells]
    if rng.random() < 0.2:
        cells[rng.integers(n)] = date(9999, 12, 31)
    return cells


def _odd(rng: np.random.Generator, n: int) -> list[Any]:
    cells = [Decimal("1.5"), b"bytes", time(8, 30), timedelta(hours=5), np.float32(2), True, 10**30,
             date(2021, 5, 6), datetime(2021, 5, 6, 7), "text", 3, 2.5, None, float("nan"), pd.NaT,
             pd.NA, np.datetime64("2020-01-01"), 1 + 2j, [1], {"a": 1}]  # fmt: skip
    common = cells if rng.random() < 0.1 else cells[:-3]
    return _pick(rng, common, n)


def _sentences(rng: np.random.Generator, n: int) -> list[str]:
    words = ["late", "parcel", "Ärger", "\x00", "x" * 50, "e\u0301t\u00e9", "42", "the", "don't"]
    return [" ".join(rng.choice(words, rng.integers(3, 12))) for _ in range(n)]


DRAWS: dict[str, Draw] = {
    "normal": _normal,
    "extreme": _extreme,
    "integers": _integers,
    "booleans": lambda rng, n: rng.random(n) < 0.5,
    "texts": lambda rng, n: _holes(rng, _pick(rng, TEXTS, n)),
    "many texts": lambda rng, n: ["".join(rng.choice(list(string.printable), 4)) for _ in range(n)],
    "sentences": lambda rng, n: _holes(rng, _sentences(rng, n)),
    "dates": lambda rng, n: _holes(rng, _moments(rng, n)),
    "durations": lambda rng, n: _holes(rng, [timedelta(seconds=s) for s in rng.normal(0, 1e5, n)]),
    "constant": lambda rng, n: [_pick(rng, [*TEXTS, *NUMBERS], 1)[0]] * n,
    "missing": lambda rng, n: [None] * n,
    "odd": _odd,
    "dates and texts": lambda rng, n: [
        cell if rng.random() < 0.7 else rng.choice(["n/a", "soon"]) for cell in _moments(rng, n)
    ],
}


def _series(cells: Column, rng: np.random.Generator) -> pd.Series:
    series = pd.Series(cells, dtype=None if isinstance(cells, np.ndarray) else object)
    chance = rng.random()
    try:
        if chance < 0.3:
            return series.infer_objects()
        if chance < 0.4:
            return series.astype("category")
        if chance < 0.5:
            return series.convert_dtypes()
    except (TypeError, ValueError, OverflowError, pa.ArrowInvalid, UnicodeEncodeError):
        pass
    return series


def draw_frame(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Columns of any kind, of which most are ordinary."""
    kinds = rng.choice(list(DRAWS), size=rng.integers(1, 6))
    kinds = [kind if rng.random() < 0.7 else "normal" for kind in kinds]
    return pd.DataFrame(
        {f"c{k}": _series(DRAWS[kind](rng, n), rng) for k, kind in enumerate(kinds)}
    )


def _is_plain(series: pd.Series) -> bool:
    """Whether the cells, or the levels of a categorical, are of one type that pyarrow can hold."""
    cells = series.cat.categories if isinstance(series.dtype, pd.CategoricalDtype) else series
    few = {type(cell) for cell in cells if cell is not None and cell is not pd.NA}
    return len(few) <= 1 and pd.api.types.infer_dtype(cells) in PLAIN


def as_library(frame: pd.DataFrame, library: str) -> Any:
    """The frame as another library has it; as it is where that library cannot hold it."""
    try:
        if library in ("polars", "pyarrow"):
            # pyarrow itself may crash on lone surrogates and on objects of several types.
            str(frame.to_numpy().tolist()).encode()
            if not all(_is_plain(frame[name]) for name in frame):
                return frame
        if library == "polars":
            return pl.from_pandas(frame)
        if library == "pyarrow":
            return pa.Table.from_pandas(frame, preserve_index=False)
        if library == "rows":
            return frame.to_numpy().tolist()
        if library == "array":
            return frame.to_numpy()
        if library == "sparse":
            return csr_matrix(frame.to_numpy(dtype=np.float64))
    except Exception:
        return frame
    return frame


LIBRARIES = ("pandas", "pandas", "polars", "pyarrow", "rows", "array", "sparse")


def mutate(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Rows to predict: some of the training rows, with cells or columns changed."""
    rows = rng.integers(len(frame), size=rng.integers(1, 12))
    changed = frame.iloc[rows].reset_index(drop=True)
    for _ in range(rng.integers(0, 4)):
        name = rng.choice(changed.columns)
        if rng.random() < 0.5:
            cells = changed[name].tolist()
            cells[rng.integers(len(cells))] = next(iter(DRAWS[rng.choice(list(DRAWS))](rng, 1)))
            changed[name] = _series(cells, rng)
        elif rng.random() < 0.7:
            changed[name] = _series(DRAWS[rng.choice(list(DRAWS))](rng, len(changed)), rng)
        elif rng.random() < 0.5 and changed.shape[1] > 1:
            changed = changed.drop(columns=name)
        else:
            changed = changed.rename(columns={name: f"{name} "})
    return changed


def _same(table: Any, copied: Any) -> bool:
    """Whether a table or a list of labels holds what its copy does."""
    if hasattr(table, "equals"):
        return bool(table.equals(copied))
    if isinstance(table, np.ndarray):
        return table.dtype == copied.dtype and repr(table.tolist()) == repr(copied.tolist())
    if hasattr(table, "indptr"):
        return _same(table.data, copied.data) and _same(table.indices, copied.indices)
    return repr(table) == repr(copied)


def _answers(model: Any, table: Any) -> np.ndarray:
    regressor = isinstance(model, nrs.NRSRegressor)
    found: np.ndarray = model.predict(table) if regressor else model.predict_proba(table)
    return found


def _refused(error: Exception) -> str:
    if len(str(error)) < 10:
        raise BrokenLawError(f"refused without a reason: {error!r}") from error
    return "refused"


def draw_model(rng: np.random.Generator) -> Any:
    """An estimator with small settings, some of them unusual."""
    settings: dict[str, Any] = {
        "preset": str(rng.choice(["fast", "fast", "default", "single"])),
        "epochs": 1,
        "hidden": int(rng.integers(2, 9)),
        "random_state": int(rng.integers(1 << 30)),
        "verbose": 0,
    }
    if rng.random() < 0.1:
        settings |= {"preset": "paper", "n_mul": 1}
    if rng.random() < 0.1:
        settings["categorical_features"] = [0]
    kind = nrs.NRSRegressor if rng.random() < 0.3 else nrs.NRSClassifier
    return kind(**settings)


def draw_labels(model: Any, rng: np.random.Generator, n: int) -> Any:
    """Labels that suit the estimator, or hardly."""
    if isinstance(model, nrs.NRSRegressor):
        return _extreme(rng, n) if rng.random() < 0.2 else rng.normal(size=n)
    if rng.random() < 0.1:
        return (rng.random((n, 3)) < 0.5).astype(int)
    labels = _pick(rng, [*TEXTS[:12], 0, 1, True], n) if rng.random() < 0.2 else None
    return labels if labels is not None else rng.integers(0, 3, n)


def case(rng: np.random.Generator) -> Counter[str]:
    """Fit a model to a random table and predict tables that are like it, or not."""
    n = int(rng.integers(2, 60))
    frame, model = draw_frame(rng, n), draw_model(rng)
    library = str(rng.choice(LIBRARIES))
    table, labels = as_library(frame, library), draw_labels(model, rng, n)
    copied = copy.deepcopy((table, labels))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model.fit(table, labels)
        except REFUSALS as error:
            if hasattr(model, "network_"):
                raise BrokenLawError("a fit that failed left a model behind") from error
            return Counter({f"fit {_refused(error)}": 1})
        if not (_same(table, copied[0]) and _same(labels, copied[1])):
            raise BrokenLawError("a fit changed its input")
        counts = Counter({"fitted": 1})
        for _ in range(PREDICTED):
            counts += _predict(model, frame, library, rng)
        counts += _refit(model, table, labels, rng)
    return counts


def _predict(
    model: Any, frame: pd.DataFrame, library: str, rng: np.random.Generator
) -> Counter[str]:
    rows = mutate(frame, rng)
    table = as_library(rows, library if rng.random() < 0.8 else str(rng.choice(LIBRARIES)))
    copied = copy.deepcopy(table)
    try:
        together = _answers(model, table)
    except REFUSALS as error:
        return Counter({f"predict {_refused(error)}": 1})
    if not _same(table, copied):
        raise BrokenLawError("predict changed its input")
    if len(together) != len(rows) or not np.isfinite(together).all():
        raise BrokenLawError(f"{len(together)} answers for {len(rows)} rows, or not finite")
    order = rng.permutation(len(rows))[: rng.integers(1, len(rows) + 1)]
    if table is rows:
        alone = _answers(model, rows.iloc[order])
        if not np.array_equal(alone, together[order]):
            raise BrokenLawError("a row's answer depends on the rows next to it")
    return Counter({"predicted": 1})


def _refit(model: Any, table: Any, labels: Any, rng: np.random.Generator) -> Counter[str]:
    """A fit that fails leaves every answer as it was."""
    before = copy.deepcopy(vars(model))
    answers = _answers(model, table)
    bad = {"epochs": -1} if rng.random() < 0.5 else {"lr": "fast"}
    kept = {name: getattr(model, name) for name in bad}
    try:
        model.set_params(**bad).fit(table, labels)
    except REFUSALS:
        model.set_params(**kept)
    else:
        raise BrokenLawError(f"{bad} was taken")
    if vars(model).keys() != before.keys() or not np.array_equal(answers, _answers(model, table)):
        raise BrokenLawError("a fit that failed changed the model")
    return Counter({"refit refused": 1})
