"""Where a fit runs: its seed, threads, callbacks, device and checkpoint."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nrs import NRSClassifier
from nrs.tabular.run import Run, draw_seed, pick_device, threads
from nrs.training import Callback, Progress, TimeLimit
from nrs.training.processes import Processes

CPU = torch.device("cpu")


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 1), (1, 1), (2, 2), (3, 3)])
def test_threads_hold_within_the_block_alone(n_jobs, expected):
    before = torch.get_num_threads()
    with threads(n_jobs):
        assert torch.get_num_threads() == expected
        with threads(4):
            assert torch.get_num_threads() == 4
        assert torch.get_num_threads() == expected
    assert torch.get_num_threads() == before
    with pytest.raises(KeyError, match="inside"), threads(n_jobs):
        raise KeyError("inside")
    assert torch.get_num_threads() == before


@given(st.integers(0, 2**32 - 1))
def test_a_seed_depends_on_the_random_state_alone(number):
    seed = draw_seed(number)
    assert seed == draw_seed(np.int64(number)) == draw_seed(np.random.RandomState(number))
    assert 0 <= seed < 2**31
    # What a generator of torch and the hashes of rows take.
    torch.Generator().manual_seed(seed)


def test_a_generator_gives_another_seed_each_time():
    state = np.random.RandomState(0)
    assert len({draw_seed(state) for _ in range(5)}) == 5
    assert len({draw_seed(None) for _ in range(5)}) == 5


def test_a_run_has_what_its_estimator_asks_for():
    callback = Callback()
    model = NRSClassifier(
        random_state=7, n_jobs=2, time_limit=9, callbacks=[callback], verbose=0, device="cpu",
        n_workers=3, divide="rows", precision="bf16", checkpoint="here",
    )  # fmt: skip
    before, generator = torch.get_num_threads(), torch.get_rng_state()
    with Run.of(model) as run:
        assert torch.get_num_threads() == 2
        assert (run.seed, run.device, run.group.size) == (draw_seed(7), CPU, 1)
        assert (run.n_workers, run.divide, run.precision) == (3, "rows", "bf16")
        assert (run.time_limit, run.checkpoint, run.repeatable) == (9, "here", True)
        assert run.begin <= time.monotonic()
    assert torch.get_num_threads() == before
    assert torch.equal(torch.get_rng_state(), generator)
    for state, repeatable in (
        (np.int64(7), True),
        (None, False),
        (np.random.RandomState(7), False),
    ):
        with Run.of(model.set_params(random_state=state)) as run:
            assert run.repeatable is repeatable


@pytest.mark.parametrize("limit", [0, -1, "60", float("nan"), True])
def test_a_time_limit_is_a_number_of_seconds(limit):
    with (
        pytest.raises(ValueError, match="time_limit must be a number of seconds above 0"),
        Run.of(NRSClassifier(time_limit=limit)),
    ):
        pass


def test_callbacks_are_the_users_then_the_limit_then_the_bar():
    mine = [Callback(), Callback()]
    run = Run(seed=0, device=CPU, begin=5.0, callbacks=mine)
    assert run.callbacks_of() == mine
    assert run.callbacks_of() is not mine
    run = Run(seed=0, device=CPU, begin=5.0, callbacks=mine, time_limit=60.0, verbose=1)
    *own, limit, bar = run.callbacks_of(after=10.0)
    assert own == mine
    assert isinstance(limit, TimeLimit)
    assert isinstance(bar, Progress)
    assert (limit.seconds, limit.begun) == (50.0, 5.0)
    # What follows training may take longer than the limit: one step is taken nevertheless.
    assert run.callbacks_of(after=100.0)[2].seconds > 0


def test_a_process_on_a_gpu_takes_its_own():
    group = Processes(1, 2, torch.device("cuda", 1))
    for device in ("auto", "cuda", torch.device("cuda")):
        assert pick_device(device, group) == torch.device("cuda", 1)
    assert pick_device("cpu", group) == CPU
