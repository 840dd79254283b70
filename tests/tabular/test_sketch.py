"""Quantiles of a stream: never further off than the sketch says, however it is cut and merged."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.tabular.encode.sketch import BLOCK, MOST_DISTINCT, SIZE, QuantileSketch

LEVELS = np.linspace(0, 1, 33)


def _values(n, seed, shape):
    rng = np.random.default_rng(seed)
    values = {
        "normal": rng.normal(size=n),
        "sorted": np.sort(rng.normal(size=n)),
        "ties": rng.integers(0, 12, n).astype(float),
        "heavy": rng.standard_cauchy(n) ** 3,
    }
    return values[shape]


def _check(sketch, values):
    assert sketch.n == len(values)
    assert (sketch.low, sketch.high) == (values.min(), values.max())
    ordered = np.sort(values)
    for level, found in zip(LEVELS, sketch.quantiles(LEVELS), strict=True):
        below, upto = (
            np.searchsorted(ordered, found, "left"),
            np.searchsorted(ordered, found, "right"),
        )
        # Some rank of the value is within the error of the rank that was asked for.
        assert below - sketch.error - 1 <= level * sketch.n <= upto + sketch.error + 1
    for value in values[:: max(1, len(values) // 50)]:
        assert abs(sketch.rank(value) - np.searchsorted(ordered, value, "right")) <= sketch.error


@settings(deadline=None, max_examples=25)
@given(
    n=st.integers(1, 300) | st.integers(2 * BLOCK, 6 * BLOCK),
    seed=st.integers(0, 1000),
    shape=st.sampled_from(["normal", "sorted", "ties", "heavy"]),
    cuts=st.lists(st.floats(0, 1), max_size=5),
    merges=st.booleans(),
)
def test_the_error_is_never_more_than_it_says(n, seed, shape, cuts, merges):
    values = _values(n, seed, shape)
    pieces = np.split(values, sorted(int(cut * n) for cut in cuts))
    sketch = QuantileSketch()
    for piece in pieces:
        if merges:
            other = QuantileSketch()
            other.add(piece)
            sketch = sketch.merge(other)
        else:
            sketch.add(piece)
    _check(sketch, values)
    bound = 0 if n < BLOCK else n * (1 + np.log2(n / BLOCK)) / (2 * SIZE)
    assert sketch.error <= bound


def test_a_million_values_merged_from_many_sketches():
    values = _values(1_000_000, 0, "normal")
    parts = []
    for piece in np.array_split(values, 9):
        parts.append(QuantileSketch())
        parts[-1].add(piece)
    while len(parts) > 1:
        parts = [parts[0].merge(parts[1]), *parts[2:]]
    _check(parts[0], values)
    assert parts[0].error / len(values) < 0.0015
    kept = sum(len(level) for level in parts[0]._levels if level is not None)
    assert kept + parts[0]._n_waiting < 2 * BLOCK


def test_few_values_are_kept_exactly_and_many_are_not():
    few, many = QuantileSketch(), QuantileSketch()
    few.add(np.tile(np.arange(MOST_DISTINCT), 10).astype(float))
    many.add(np.arange(MOST_DISTINCT + 1.0))
    assert few.distinct.tolist() == list(range(MOST_DISTINCT))
    assert many.distinct is None
    assert few.merge(many).distinct is None
    assert few.merge(few).distinct.tolist() == few.distinct.tolist()


def test_neither_side_of_a_merge_changes():
    one, two = QuantileSketch(), QuantileSketch()
    one.add(_values(2 * BLOCK, 1, "normal"))
    two.add(_values(3 * BLOCK + 5, 2, "normal"))
    before = one.n, two.n, one.quantiles(LEVELS).tolist(), two.quantiles(LEVELS).tolist()
    one.merge(two)
    assert before == (one.n, two.n, one.quantiles(LEVELS).tolist(), two.quantiles(LEVELS).tolist())


def test_nothing_has_no_quantiles():
    with pytest.raises(ValueError, match="none was added"):
        QuantileSketch().quantiles([0.5])
