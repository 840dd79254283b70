"""Rows of several threads go through a function together, and get their own results back."""

import threading

import numpy as np
import pytest

from nrs._util.batches import Batches
from tests.threads import in_threads


def test_what_waits_goes_together():
    calls, first_began, go_on = [], threading.Event(), threading.Event()

    def forward(features):
        calls.append(len(features))
        if len(calls) == 1:
            first_began.set()
            go_on.wait(10)
        return 2 * features

    batches = Batches(forward)

    def work(number):
        if number:
            first_began.wait(10)
        return batches.forward(np.full((number + 1, 1), float(number)))

    threads = threading.Thread(target=lambda: found.extend(in_threads(4, work)))
    found = []
    threads.start()
    first_began.wait(10)
    while batches.n_waiting < 3:
        pass
    go_on.set()
    threads.join(10)
    assert calls == [1, 2 + 3 + 4]
    assert [together for _, together in found] == [1, 3, 3, 3]
    for number, (outputs, _) in enumerate(found):
        assert outputs.tolist() == [[2.0 * number]] * (number + 1)


def test_no_batch_has_more_rows_than_allowed_but_one_of_a_single_thread():
    sizes = []

    def forward(features):
        sizes.append(len(features))
        return features

    batches = Batches(forward, max_rows=5)
    in_threads(8, lambda number: batches.forward(np.zeros((2 if number else 9, 1))))
    assert sum(sizes) == 9 + 7 * 2
    assert max(sizes) == 9
    assert all(size <= 4 for size in sizes if size != 9)


def test_bad_rows_fail_by_themselves():
    def forward(features):
        if np.isnan(features).any():
            raise ValueError("not a number")
        return features

    batches = Batches(forward)

    def work(number):
        row = np.full((1, 1), np.nan if number == 3 else number)
        try:
            return batches.forward(row)[0].item()
        except ValueError as error:
            return str(error)

    for _ in range(20):
        assert in_threads(8, work) == [0, 1, 2, "not a number", 4, 5, 6, 7]


@pytest.mark.parametrize("at_once", [1, 2])
def test_many_threads_and_many_calls(at_once):
    running, most = 0, 0
    lock = threading.Lock()

    def forward(features):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        outputs = features + 1
        with lock:
            running -= 1
        return outputs

    batches = Batches(forward, at_once)

    def work(number):
        return all(
            batches.forward(np.full((3, 2), number * k))[0].tolist() == [[number * k + 1] * 2] * 3
            for k in range(50)
        )

    assert all(in_threads(8, work))
    assert 1 <= most <= at_once
