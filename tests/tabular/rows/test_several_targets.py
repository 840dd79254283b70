"""Several columns of a table in files are predicted at once, as of rows in memory."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

import nrs
from nrs import NRSClassifier, NRSRanker, NRSRegressor

RNG = np.random.default_rng(0)
N = 300
FRAME = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.uniform(size=N)})
FRAME["kind"] = np.where(RNG.random(N) < 0.3, "x", "y")
TIMES, WATCHED = np.exp(FRAME["a"] + RNG.logistic(size=N) / 4), RNG.exponential(3, N)
SOME = RNG.random(N) < 0.3
LABELS = {
    "low": np.minimum(TIMES, WATCHED),
    # Not over yet: no upper bound.
    "high": np.where(TIMES < WATCHED, TIMES, np.nan),
    "y": 1e4 + 100 * FRAME["a"] + RNG.normal(size=N),
    "z": np.where(SOME, np.nan, FRAME["b"] - FRAME["a"]),
    "colour": np.where(SOME, None, np.where(FRAME["a"] > 0, "red", "blue")),
    "size": np.digitize(FRAME["b"], [0.3, 0.6]),
    "yes": (FRAME["a"] > 0.3).astype(int),
    "no": FRAME["kind"] == "x",
}
QUICK = {"preset": "fast", "epochs": 6, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("several") / "rows.parquet"
    rows = pyarrow.Table.from_pandas(FRAME.assign(**LABELS))
    parquet.write_table(rows, path, row_group_size=70)
    return path


def _table(path, names):
    return nrs.Table(path, target=names, columns=list(FRAME.columns))


def _in_memory(names):
    return pd.DataFrame({name: LABELS[name] for name in names})


@pytest.mark.parametrize(
    ("names", "settings"),
    [
        (["low", "high"], {"loss": "aft"}),
        (["y", "z"], {}),
        (["y", "z"], {"quantiles": (0.1, 0.5, 0.9)}),
        (["low", "size"], {"loss": "poisson"}),
    ],
    ids=["aft", "squared", "quantiles", "poisson"],
)
def test_numbers_are_learned_from_files_as_from_memory(path, names, settings):
    streamed = NRSRegressor(**QUICK, **settings).fit(_table(path, names))
    y = _in_memory(names).to_numpy(dtype=float)
    kept = NRSRegressor(**QUICK, **settings).fit(FRAME, y)
    assert type(streamed.target_) is type(kept.target_)
    assert streamed.predict(FRAME).shape == kept.predict(FRAME).shape
    assert streamed.oob_prediction_.shape == kept.oob_prediction_.shape
    assert streamed.oob_score_ > max(0, kept.oob_score_ - 0.25)
    both = streamed.predict(FRAME).reshape(N, -1), kept.predict(FRAME).reshape(N, -1)
    for one, other in zip(*(part.T for part in both), strict=True):
        assert np.corrcoef(one, other)[0, 1] > 0.7


def test_classes_are_learned_from_files_as_from_memory(path, tmp_path):
    names = ["colour", "size"]
    table, y = _table(path, names), _in_memory(names)
    weights = [None, "balanced"]
    streamed, kept = (NRSClassifier(**QUICK, class_weight=weights) for _ in range(2))
    streamed.fit(table)
    kept.fit(FRAME, y)
    assert [one.tolist() for one in streamed.classes_] == [["blue", "red"], [0, 1, 2]]
    for one, other in zip(streamed.target_.columns, kept.target_.columns, strict=True):
        if one.class_weights is None:
            assert other.class_weights is None
        else:
            np.testing.assert_allclose(one.class_weights, other.class_weights)
    assert streamed.score(FRAME, y) > kept.score(FRAME, y) - 0.2
    streamed.save(tmp_path / "model")
    loaded = NRSClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(FRAME), streamed.predict(FRAME))


def test_labels_of_0_and_1_are_several_labels(path):
    model = NRSClassifier(**QUICK).fit(_table(path, ["yes", "no"]))
    assert model.target_.kind == "multilabel"
    y = _in_memory(["yes", "no"]).to_numpy(dtype=int)
    assert model.score(FRAME, y) > 0.5
    assert model.predict_proba(FRAME).shape == (N, 2)


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("names", [["y", "z"], ["colour", "size"]])
def test_workers_count_several_targets_too(path, names):
    kind = NRSRegressor if names == ["y", "z"] else NRSClassifier
    table = _table(path, names)
    alone = kind(**QUICK).fit(table)
    both = kind(**QUICK, n_workers=2, divide="members").fit(table)
    for one, other in zip(both.member_outputs(FRAME), alone.member_outputs(FRAME), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_rows_without_any_label_are_left_out(path, tmp_path):
    rows = FRAME.assign(y=LABELS["y"], z=LABELS["z"])
    rows.loc[:9, ["y", "z"]] = np.nan
    rows.loc[10:19, ["y", "z"]] = [np.nan, 0.0]
    parquet.write_table(pyarrow.Table.from_pandas(rows), tmp_path / "rows.parquet")
    table = nrs.Table(tmp_path / "rows.parquet", target=["y", "z"])
    model = NRSRegressor(**QUICK).fit(table)
    assert len(model.oob_prediction_) == N - 10
    assert np.isfinite(model.oob_prediction_).all()


def test_what_files_cannot_have_is_refused(path):
    with pytest.raises(ValueError, match="list of different names"):
        nrs.Table(path, target=["y", "y"])
    with pytest.raises(ValueError, match="'colour' holds"):
        NRSRegressor(**QUICK).fit(_table(path, ["y", "colour"]))
    with pytest.raises(ValueError, match="'z' holds fractions"):
        NRSClassifier(**QUICK).fit(_table(path, ["size", "z"]))
    with pytest.raises(ValueError, match=r"0 ≤ lower ≤ upper.* got \(nan"):
        NRSRegressor(**QUICK, loss="aft").fit(_table(path, ["z", "y"]))
    with pytest.raises(ValueError, match="class_weight is for one column"):
        NRSClassifier(**QUICK, class_weight="balanced").fit(_table(path, ["yes", "no"]))
    for more in ({"threshold": 0.3}, {"loss": lambda outputs, y: outputs[:, 0]}):
        with pytest.raises(ValueError, match=next(iter(more))):
            NRSClassifier(**QUICK, **more).fit(_table(path, ["colour", "size"]))
    with pytest.raises(ValueError, match="a ranker needs a Table of one target"):
        NRSRanker(**QUICK).fit(nrs.Table(path, target=["size", "yes"]), qid="kind")
