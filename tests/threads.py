"""Calls in several threads at once."""

import threading
from concurrent.futures import ThreadPoolExecutor


def in_threads(count, work):
    """What ``work(0)``, …, ``work(count - 1)`` return, each called in its own thread at once."""
    start = threading.Barrier(count)

    def call(number):
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))
