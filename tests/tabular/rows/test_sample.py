"""A sample of rows in files that depends on the rows alone."""

import hashlib
import itertools

import numpy as np
import pyarrow
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.tabular.rows.sample import RowSample, hashed, hashed_texts, row_places, split_places


def test_the_sample_is_uniform_and_does_not_depend_on_the_order_of_reading():
    batch = pyarrow.record_batch({"k": np.arange(20_000)})
    forward, backward = RowSample(500), RowSample(500)
    for start in range(0, 20_000, 1000):
        forward.add(batch.slice(start, 1000), np.arange(start, start + 1000))
        back = 19_000 - start
        backward.add(batch.slice(back, 1000), np.arange(back, back + 1000))
    assert forward.rows.equals(backward.rows)
    assert len(forward.rows) == 500
    assert np.array_equal(forward.rows["k"].to_numpy(), forward.places)
    by_quarter = np.bincount(forward.places // 5000)
    assert by_quarter.min() > 80


@given(st.integers(0, 30), st.integers(1, 300), st.integers(1, 20), st.integers(0, 99))
@settings(max_examples=20)
def test_however_rows_are_divided_the_sample_is_the_same(n_cuts, n_rows, size, seed):
    rng = np.random.default_rng(seed)
    batch, places = pyarrow.record_batch({"k": np.arange(n_rows)}), row_places(3, np.arange(n_rows))
    whole = RowSample(size)
    whole.add(batch, places)
    parts = [RowSample(size), RowSample(size)]
    edges = [0, *sorted(rng.integers(0, n_rows + 1, n_cuts)), n_rows]
    for start, stop in itertools.pairwise(edges):
        parts[rng.integers(2)].add(batch.slice(start, stop - start), places[start:stop])
    merged = RowSample(size)
    for part in reversed(parts):
        if part.rows is not None:
            merged.join(part.rows, part.places)
    assert np.array_equal(merged.places, whole.places)
    assert merged.rows.equals(whole.rows)
    assert len(whole.places) == min(size, n_rows)
    # The rows of the least hash, whichever are kept besides.
    least = np.sort(places[np.argsort(hashed(places, 1))[:size]])
    assert np.array_equal(whole.places, least)


@given(st.lists(st.tuples(st.integers(0, 2**23 - 1), st.integers(0, 2**40 - 1)), min_size=1))
def test_places_are_unique_and_lead_back(rows):
    places = np.array([row_places(part, np.array([row]))[0] for part, row in rows])
    assert (places >= 0).all()
    files, numbers = split_places(places)
    assert list(zip(files.tolist(), numbers.tolist(), strict=True)) == rows
    assert len(set(places.tolist())) == len(set(rows))


def test_hashes_depend_on_place_and_salt_and_look_random():
    places = row_places(2, np.arange(10_000))
    first, second = hashed(places, 1), hashed(places, 2)
    assert np.array_equal(hashed(places[::-1], 1), first[::-1])
    assert len(np.unique(first)) == 10_000
    assert abs(np.corrcoef(first.astype(float), second.astype(float))[0, 1]) < 0.05
    for fraction in (first % np.uint64(8), first >> np.uint64(61)):
        assert np.abs(np.bincount(fraction.astype(int), minlength=8) - 1250).max() < 200


def test_a_text_has_the_same_number_in_every_process():
    assert hashed_texts([]).tolist() == []
    # BLAKE2b, not Python's hash, which differs between processes.
    expected = [
        int.from_bytes(hashlib.blake2b(b"a", digest_size=8).digest(), "little", signed=True)
    ]
    assert hashed_texts(["a"]).tolist() == expected
