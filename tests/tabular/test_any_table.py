"""Fuzz: any table is fitted and predicted, or refused in words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nrs import NRSClassifier, NRSRegressor

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

TEXT = st.one_of(st.none(), st.sampled_from(["a", "b", "", "é", "1"]))
NUMBER = st.one_of(
    st.none(), st.floats(-1e30, 1e30, width=64), st.sampled_from([0.0, 1.0, float("nan")])
)
CELLS = {
    "number": NUMBER,
    "integer": st.integers(-(2**40), 2**40),
    "text": TEXT,
    "boolean": st.one_of(st.none(), st.booleans()),
    "date": st.one_of(st.none(), st.datetimes(pandas.Timestamp("1700-01-01").to_pydatetime())),
    "missing": st.none(),
    "infinite": st.sampled_from([1.0, float("inf")]),
}


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 12))
    kinds = draw(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=4))
    names = [f"c{i}" for i in range(len(kinds))]
    if len(names) > 1 and draw(st.integers(0, 9)) == 0:
        names[1] = names[0]
    columns = [draw(st.lists(CELLS[k], min_size=rows, max_size=rows)) for k in kinds]
    series = [pandas.Series(column) for column in columns]
    if draw(st.booleans()):
        series = [
            s.astype("category") if k == "text" else s for s, k in zip(series, kinds, strict=True)
        ]
    frame = pandas.concat(series, axis=1)
    frame.columns = names
    return frame


def _done_or_refused(method, *arguments):
    """True if it worked, False if it was refused in words; anything else is an error."""
    refusal = None
    try:
        method(*arguments)
    except ValueError as error:
        refusal = str(error)
    assert refusal is None or len(refusal) > 20
    return refusal is None


@given(frames(), frames(), st.booleans(), st.data())
@settings(max_examples=60)
def test_fits_or_refuses(train, other, classify, data):
    labels = data.draw(
        st.lists(
            st.sampled_from(["x", "y", "z"]) if classify else st.floats(-1e6, 1e6),
            min_size=len(train),
            max_size=len(train),
        )
    )
    estimator = NRSClassifier if classify else NRSRegressor
    model = estimator(epochs=1, n_mul=1, hidden=4, random_state=0)
    if not _done_or_refused(model.fit, train, labels):
        return
    predicted = model.predict(train)
    assert len(predicted) == len(train)
    if classify:
        assert set(predicted) <= set(labels)
        assert np.isfinite(model.predict_proba(train)).all()
    else:
        assert np.isfinite(predicted).all()
    if list(other.columns) == list(train.columns):
        _done_or_refused(model.predict, other)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pandas.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "a"),
        (pandas.DataFrame({"a": [1.0, np.inf]}), r"infinit.*\ba\b|\ba\b.*infinit"),
        (pandas.DataFrame({"a": [1.0]}), "n_samples=1"),
        (pandas.DataFrame({"a": []}), "0 sample"),
        (pandas.DataFrame(index=[0, 1]), "0 feature"),
    ],
)
def test_refusals_name_what_came(frame, message):
    with pytest.raises(ValueError, match=message):
        NRSClassifier(epochs=1).fit(frame, np.arange(len(frame)) % 2)


def test_unseen_categories_and_missing_columns_at_prediction():
    frame = pandas.DataFrame({"a": ["x", "y"] * 10, "b": np.arange(20.0)})
    model = NRSClassifier(epochs=1, random_state=0).fit(frame, [0, 1] * 10)
    assert model.predict(pandas.DataFrame({"a": ["new", None], "b": [1.0, None]})).shape == (2,)
    with pytest.raises(ValueError, match="b"):
        model.predict(frame[["a"]])
    with pytest.raises(ValueError, match="b"):
        model.predict(frame.assign(b="text"))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_every_frame_library_gives_the_same_predictions(library):
    frame = pandas.DataFrame(
        {"a": ["x", "y", None, "x"] * 10, "b": np.arange(40.0), "c": [True, False] * 20}
    )
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    given = {
        "pandas": lambda: frame,
        "pyarrow": lambda: arrow,
        "polars": lambda: pytest.importorskip("polars").from_arrow(arrow),
    }[library]()
    labels = [0, 1] * 20
    expected = NRSClassifier(epochs=3, random_state=0).fit(frame, labels).predict_proba(frame)
    model = NRSClassifier(epochs=3, random_state=0).fit(given, labels)
    np.testing.assert_array_equal(model.predict_proba(given), expected)


def test_the_names_of_a_record_batch_are_known():
    columns = {"a": np.arange(20.0), "b": ["x", "y"] * 10}
    batch = pyarrow.record_batch(columns)
    model = NRSClassifier(preset="fast", epochs=1, random_state=0).fit(batch, [0, 1] * 10)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    whole = model.predict_proba(pyarrow.table(columns))
    np.testing.assert_array_equal(model.predict_proba(batch), whole)
    with pytest.raises(ValueError, match="in the same order"):
        model.predict(pyarrow.record_batch({"b": columns["b"], "a": columns["a"]}))


@pytest.mark.parametrize(
    "chosen",
    [
        pandas.Index(["a"]),
        pandas.Series([True, False]),
        polars.Series(["a"]),
        range(1),
        ("a",),
    ],
    ids=lambda chosen: type(chosen).__name__,
)
def test_categorical_columns_of_any_sequence_are_saved(tmp_path, chosen):
    frame = pandas.DataFrame({"a": np.arange(20) % 3, "b": np.arange(20.0)})
    model = NRSClassifier(preset="fast", epochs=1, random_state=0, categorical_features=chosen)
    model.fit(frame, [0, 1] * 10).save(tmp_path / "m")
    assert model.encoder_.kinds_ == ["category", "number"]
    loaded = NRSClassifier.load(tmp_path / "m")
    assert loaded.categorical_features == list(chosen)
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_steps_before_it_may_put_out_frames(library):
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=90), "b": rng.choice(["x", "y"], 90)}
    frame = pytest.importorskip(library).DataFrame(columns)
    scaled = make_column_transformer(
        (StandardScaler(), ["a"]), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform=library)
    model = make_pipeline(scaled, NRSClassifier(preset="fast", epochs=2, random_state=0))
    model.fit(frame, columns["b"] == "x")
    assert model[-1].feature_names_in_.tolist() == ["a", "b"]
    assert model[-1].encoder_.kinds_ == ["number", "category"]
    assert model.score(frame, columns["b"] == "x") > 0.9


def test_metadata_is_routed_to_fit_score_and_predict():
    rng = np.random.default_rng(0)
    X, weights, groups = rng.normal(size=(90, 2)), rng.random(90), np.arange(90) // 5
    seen = []

    class Classifier(NRSClassifier):
        def fit(self, X, y=None, sample_weight=None, eval_set=None, groups=None, time=None):
            seen.append((len(X), sample_weight, groups))
            return super().fit(X, y, sample_weight, eval_set, groups, time)

    model = Classifier(preset="fast", epochs=1, random_state=0)
    with config_context(enable_metadata_routing=True):
        asked = model.set_fit_request(sample_weight=True, groups=True)
        cross_validate(
            asked.set_score_request(sample_weight=True), X, X[:, 0] > 0, cv=GroupKFold(3),
            params={"sample_weight": weights, "groups": groups}, error_score="raise",
        )  # fmt: skip
        assert len(seen) == 3
        for n, given_weights, given_groups in seen:
            assert len(given_weights) == len(given_groups) == n
        counts = NRSRegressor(preset="fast", epochs=1, random_state=0, loss="poisson")
        asked = counts.set_fit_request(offset=True).set_predict_request(offset=True)
        cross_validate(
            asked, X, groups, cv=2, scoring="r2", params={"offset": weights}, error_score="raise"
        )
