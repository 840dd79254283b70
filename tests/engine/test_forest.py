"""The engine's border, its bits, and its predictions."""

import copy
import ctypes
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nrs
from nrs import engine
from nrs.engine import Norm, Parameter, Predictor, Settings, Shape, Step, Training, instructions
from nrs.engine import forest as module

needs_engine = pytest.mark.skipif(instructions()[0] is None, reason=instructions()[1])


def a_shape(rng, members=3, subspaces=20, size=7, features=6, hidden=(17,), outputs=3):
    source = np.array([0, 1, 1, features - 1])
    low, rate = rng.normal(size=4).astype(np.float32), rng.uniform(1, 2, 4).astype(np.float32)
    index = rng.integers(0, features + 5, (members, subspaces, size))
    return Shape(index, features, source, low, rate, 1, hidden, outputs)


def a_training(rng, loss="softmax", shape=None, folds=1, drop=0.1, threads=1):
    """An engine, and all arrays that it updates."""
    shape = a_shape(rng) if shape is None else shape
    k, widths, arrays = len(shape.index), shape.widths, []

    def parameter(*size, at=0.0):
        value = (rng.normal(at, 0.3, size)).astype(np.float32)
        found = (value, np.zeros_like(value), np.zeros_like(value), value.copy())
        arrays.extend(found)
        return Parameter(*found)

    def norm(units):
        pair = parameter(units, at=1.0), parameter(units)
        rest = [np.full(units, at, np.float32) for at in (0, 1, 0, 1)]
        arrays.extend(rest)
        return Norm(*pair, *rest)

    built = Training(
        shape,
        Settings(loss, np.ones((k, folds), dtype=bool), 1 / k, drop=drop),
        np.ones(shape.index.shape, np.float32),
        parameter(*shape.index.shape),
        [norm(k * width) for width in widths],
        [parameter(k, *pair) for pair in zip(widths[1:], widths[:-1], strict=True)],
        parameter(k, shape.outputs, widths[-1]),
        parameter(k, shape.outputs),
        threads,
    )
    return built, arrays


def a_step(rng, shape, loss="softmax", rows=37, count=1, drop=0.1):
    pool = rng.integers(0, 256, 1 << 15).astype(np.uint8)
    x = rng.normal(size=(rows, shape.features)).astype(np.float32)
    y = rng.integers(0, shape.outputs, rows)
    if loss != "softmax":
        y = rng.normal(size=(rows, shape.outputs)).astype(np.float32)
    masks = [(pool, int(rng.integers(99))) for _ in shape.widths] if drop else []
    return Step(x, y, None, None, masks, 1e-2, count, 0.1)


def fit(seed=0, loss="softmax", threads=1, steps=4, at_once=2):
    """Everything that a few steps leave behind."""
    rng = np.random.default_rng(seed)
    built, arrays = a_training(rng, loss, threads=threads)
    taken = [a_step(rng, built.shape, loss, count=1 + n) for n in range(steps)]
    losses = [built.take(taken[n : n + at_once]) for n in range(0, steps, at_once)]
    return [np.concatenate(losses), *arrays]


def same_bits(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@needs_engine
def test_no_thread_outlives_a_call_and_a_fork_in_the_middle_of_one_trains():
    threads, expected = threading.active_count(), fit(threads=2)
    assert threading.active_count() == threads
    stopped = threading.Event()

    def busy():
        while not stopped.is_set():
            fit(seed=1, threads=2)

    other = threading.Thread(target=busy)
    other.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                # Nothing of the parent's may run here.
                code = 1
                try:
                    code = 0 if same_bits(expected, fit(threads=2)) else 2
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stopped.set()
        other.join()


@needs_engine
def test_a_part_of_a_forest_has_the_tiles_of_the_whole():
    rng = np.random.default_rng(0)
    # One member alone would make a tile of the four features that the others never read together.
    others = [[[0, 2, 4, 6, 6]], [[1, 3, 5, 6, 6]]]
    index = np.array([[[0, 1, 2, 3, 6]], *others, *others])
    none = np.empty(0, np.float32)
    shape = Shape(index, 6, none.astype(np.int64), none, none, 0, (), 2)
    part = replace(shape, index=index[:1])
    assert len(part.reading.start) == 1
    assert len(replace(part, whole=index).reading.start) == len(shape.reading.start) == 0
    with pytest.raises(ValueError, match="inputs of subspaces"):
        a_training(rng, shape=replace(part, whole=index + 1))


@needs_engine
@pytest.mark.parametrize("loss", engine.LOSSES)
def test_neither_threads_nor_steps_at_once_change_a_bit(loss):
    alone = fit(loss=loss)
    assert np.isfinite(np.concatenate([part.ravel() for part in alone])).all()
    assert same_bits(alone, fit(loss=loss, threads=2))
    assert same_bits(alone, fit(loss=loss, threads=5))
    assert same_bits(alone, fit(loss=loss, at_once=1))


@pytest.fixture
def both_libraries(monkeypatch):
    """Loads the library of another instruction set."""
    found = {level: module._path(level) for level in module._LEVELS}
    if instructions()[0] != "avx512" or not all(path.exists() for path in found.values()):
        pytest.skip("this processor runs one of the libraries only")

    def load(level):
        library = module._declared(ctypes.CDLL(str(found[level])))
        monkeypatch.setattr(module, "_load", lambda: (library, level))

    return load


@needs_engine
@pytest.mark.parametrize("loss", engine.LOSSES)
def test_both_instruction_sets_give_the_same_bits(both_libraries, loss):
    found = {}
    for level in module._LEVELS:
        both_libraries(level)
        predictor, x = a_predictor(np.random.default_rng(1), rows=150)
        found[level] = [*fit(loss=loss, steps=12), predictor.outputs(x)]
    assert same_bits(found["avx2"], found["avx512"])


@needs_engine
def test_a_step_in_two_calls_is_a_step():
    known, unknown = (a_training(np.random.default_rng(0), loss) for loss in ("squared", None))
    step = a_step(np.random.default_rng(1), known[0].shape, "squared")
    losses = known[0].take([step])
    outputs = unknown[0].forward(step)
    error = outputs - step.y.T
    members, n_outputs, rows = error.shape
    assert (error**2).mean((1, 2)) / members == pytest.approx(losses[0], rel=1e-4)
    unknown[0].backward((2 / (rows * n_outputs * members) * error).astype(np.float32))
    for one, other in zip(known[1], unknown[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@needs_engine
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_what_is_computed_again_to_save_memory_has_the_same_bits(threads, monkeypatch):
    found, sizes = [], []
    for most in (module.MAX_KEPT, 0):
        monkeypatch.setattr(module, "MAX_KEPT", most)
        rng = np.random.default_rng(0)
        built, arrays = a_training(rng, None, threads=threads)
        for count in range(1, 4):
            step = a_step(rng, built.shape, "squared", count=count)
            outputs = built.forward(step)
            built.backward(np.ascontiguousarray(outputs - step.y.T))
        found.append([outputs, *arrays])
        sizes.append(len(built._memory) // (built.members if most else min(threads, built.members)))
    assert same_bits(*found)
    assert sizes[0] == sizes[1] > 0


def a_predictor(rng, rows=5, **shape):
    shape = a_shape(rng, **shape)
    k, widths = len(shape.index), shape.widths

    def some(*size):
        return rng.normal(0, 0.3, size).astype(np.float32)

    predictor = Predictor(
        shape,
        some(*shape.index.shape),
        [some(k * width) for width in widths],
        [some(k, *pair) for pair in zip(widths[1:], widths[:-1], strict=True)],
        some(k, shape.outputs, widths[-1]),
        some(k, shape.outputs),
    )
    return predictor, some(rows, shape.features)


@needs_engine
@given(st.integers(1, 300), st.integers(0, 50), st.integers(1, 4))
def test_an_answer_depends_on_no_other_row_member_or_thread(rows, seed, threads):
    rng = np.random.default_rng(seed)
    predictor, x = a_predictor(rng, rows)
    outputs = predictor.outputs(x, threads=threads)
    assert outputs.shape == (3, 3, rows)
    row = int(rng.integers(rows))
    assert np.array_equal(predictor.outputs(x[row : row + 1])[..., 0], outputs[..., row])
    chosen = np.array([2, 0])
    assert np.array_equal(predictor.outputs(x, chosen), outputs[chosen])


@needs_engine
def test_predictors_are_copied_and_pickled():
    predictor, x = a_predictor(np.random.default_rng(0))
    expected = predictor.outputs(x)
    for other in (copy.deepcopy(predictor), pickle.loads(pickle.dumps(predictor))):
        assert np.array_equal(other.outputs(x), expected)


@needs_engine
def test_no_rows_have_no_outputs():
    predictor, x = a_predictor(np.random.default_rng(0))
    assert predictor.outputs(x[:0]).shape == (3, 3, 0)


WRONG_STEPS = {
    "two rows": {"rows": 1},
    "contiguous": {"x": lambda x: x[:, ::-1]},
    "of float64": {"x": lambda x: x.astype(np.float64)},
    "expects": {"x": lambda x: np.ascontiguousarray(x[:, 1:])},
    "classes must be from 0 to 2": {"y": lambda y: y + 1},
    "not within": {"masks": lambda masks: [(pool, 8 * pool.size) for pool, _ in masks]},
    "shorter": {"masks": lambda masks: masks[:1]},
    "a rate": {"rate": lambda rate: float("nan")},
    "targets": {"y": lambda y: None},
}


@needs_engine
@pytest.mark.parametrize("message", WRONG_STEPS)
def test_nothing_of_another_size_reaches_the_library(message):
    rng = np.random.default_rng(0)
    built, arrays = a_training(rng)
    before = copy.deepcopy(arrays)
    wrong = dict(WRONG_STEPS[message])
    step = a_step(rng, built.shape, rows=wrong.pop("rows", 9))
    y_one = {name: change(getattr(step, name)) for name, change in wrong.items()}
    if message.startswith("classes"):
        y_one["y"] = np.full(9, 3)
    from dataclasses import replace

    with pytest.raises(ValueError, match=message):
        built.take([replace(step, **y_one)])
    assert same_bits(before, arrays)


@needs_engine
@pytest.mark.parametrize("end", [-1, 11])
def test_inputs_and_folds_are_those_that_there_are(end):
    rng = np.random.default_rng(0)
    shape = a_shape(rng)
    shape.index[1, 2, 3] = end
    with pytest.raises(ValueError, match="inputs of subspaces must be from 0 to 10"):
        a_training(rng, shape=shape)
    shape.index[1, 2, 3], shape.source[0] = 0, 6 if end > 0 else -1
    with pytest.raises(ValueError, match="features of bins"):
        a_training(rng, shape=shape)
    built, _ = a_training(rng, folds=2)
    step = a_step(rng, built.shape)
    with pytest.raises(ValueError, match="fold of each row"):
        built.take([step])
    predictor, x = a_predictor(rng)
    with pytest.raises(ValueError, match="members must be from 0 to 2"):
        predictor.outputs(x, np.array([3]))


@pytest.mark.usefixtures("without_engine")
def test_the_configuration_says_why():
    assert nrs.show_config()["engine"] == "torch"
    assert "NRS_ENGINE=torch" in nrs.show_config()["reason"]


def test_without_a_library_it_says_so(monkeypatch, tmp_path):
    monkeypatch.delenv("NRS_ENGINE", raising=False)
    monkeypatch.setattr(module, "_path", lambda level: tmp_path / level)

    def forget():
        module._load.cache_clear()
        instructions.cache_clear()

    forget()
    try:
        assert "no compiler" in nrs.show_config()["reason"]
        (tmp_path / "avx2").write_bytes(b"no library")
        forget()
        assert "cannot be loaded" in nrs.show_config()["reason"]
    finally:
        forget()


def test_it_needs_no_torch():
    code = "import sys, nrs.engine; nrs.engine.show_config(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@given(st.integers(0, 999), st.booleans(), st.integers(0, 40))
def test_every_place_is_read_once(seed, in_order, most_bins):
    rng = np.random.default_rng(seed)
    features = int(rng.integers(1, 6))
    counts = rng.integers(0, most_bins + 1, features)
    levels = int(rng.integers(0, 9))
    source = np.concatenate([np.repeat(np.arange(features), counts), np.full(levels, features - 1)])
    low, rate = rng.random((2, len(source))).astype(np.float32)
    blank = features + len(source)
    members, subspaces, size = 3, 7, int(rng.integers(1, 40))
    index = rng.integers(0, blank + 1, (members, subspaces, size))
    if in_order:
        # Whole columns with few gaps, as they are grown, and blanks at the end.
        begin = rng.integers(0, blank + 1, (members, subspaces, 1))
        index = begin + np.cumsum(rng.random(index.shape) < 0.9, axis=2)
    index = np.minimum(index, blank)
    reading = module.Reading.of(index, features, source, low, rate, levels)

    # What each place reads: a feature, or a bin with its edges; None where it is read by nothing.
    inputs = [("feature", number) for number in range(features)]
    for number, edges in enumerate(zip(source, low, rate, strict=True)):
        inputs.append((number >= len(source) - levels, *map(float, edges)))
    columns = inputs[:features]
    for number, edges in enumerate(
        zip(reading.column_source, reading.column_low, reading.column_rate, strict=True)
    ):
        first_level = len(reading.column_source) - reading.levels
        columns.append((number >= first_level, *map(float, edges)))
    found = {}

    def read(member, place, what):
        assert (member, place) not in found
        found[member, place] = what

    for g, (begin, end) in enumerate(
        zip(reading.lone_first[:-1], reading.lone_first[1:], strict=True)
    ):
        member, subspace = divmod(g, subspaces)
        for place, column in zip(
            reading.lone_place[begin:end], reading.lone_column[begin:end], strict=True
        ):
            assert place // size == subspace
            read(member, place, "blank" if column == len(columns) else columns[column])
    tiles = len(reading.start)
    for number in range(members * tiles):
        member, tile = divmod(number, tiles)
        kind, start = reading.kind[tile], int(reading.start[tile])
        assert 0 < reading.length[tile] <= module.LANES
        for reader in range(reading.first[number], reading.first[number + 1]):
            lanes = [q for q in range(module.LANES) if reading.lanes[reader] >> q & 1]
            assert max(lanes) < reading.length[tile]
            for place, lane in enumerate(lanes, reading.place[reader]):
                assert place // size == reading.subspace[reader]
                edges = float(reading.low[tile, lane]), float(reading.rate[tile, lane])
                known = ("feature", start + lane) if kind == 0 else (kind == 2, start, *edges)
                read(member, place, known)
    for (k, g, f), own in np.ndenumerate(index):
        expected = "blank" if own == blank else inputs[own]
        if f < reading.used.reshape(members, subspaces)[k, g]:
            assert found.pop((k, g * size + f)) == expected
        else:
            assert own == blank
    assert not found
    assert reading.most == max(
        (reading.first[(k + 1) * tiles] - reading.first[k * tiles] for k in range(members)),
        default=0,
    )
