"""A sample of the fuzzer of requests, and its laws on services that break them."""

import socket
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.fuzz import requests
from benchmarks.fuzz.run import BrokenLawError


def test_hostile_requests_are_refused_and_the_service_runs_on(monkeypatch):
    monkeypatch.setattr(requests, "REQUESTS", 60)
    counts = requests.case(np.random.default_rng(0))
    assert sum(counts.values()) == 2 * counts["requests"] == 120
    assert counts["json 422"] > 5 < counts["arrow 422"]


def test_a_case_is_drawn_from_its_seed():
    for draw in (requests.draw_json, requests.draw_arrow, requests.draw_head):
        first, again = (
            [draw(np.random.default_rng([seed, k])) for k in range(9)] for seed in (5, 5)
        )
        assert first == again
        assert len(set(first)) > 5


class Broken(requests.Service):
    """A service that gives the same bytes to everyone."""

    def __init__(self, answer, memory=0):
        self._process = SimpleNamespace(poll=lambda: None, pid="self")
        self._server = socket.create_server(("127.0.0.1", 0))
        self._answer, self.address = answer, self._server.getsockname()
        self.n_requests, self.memory = requests.WARM_UP, memory
        self._good, self.expected = b"POST", b"HTTP/1.1 200 OK\r\n\r\nright"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            connection, _ = self._server.accept()
            with connection:
                connection.recv(1 << 20)
                connection.sendall(self._answer)


def test_a_broken_law_is_seen():
    with pytest.raises(BrokenLawError, match="500 Internal"):
        requests.hostile(np.random.default_rng(0), Broken(b"HTTP/1.1 500 Internal\r\n\r\n"))
    with pytest.raises(BrokenLawError, match="a good request got"):
        Broken(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong").check()
    right = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright"
    Broken(right).check()
    with pytest.raises(BrokenLawError, match="grew from 0 to"):
        Broken(right, memory=1).check()
    ended = Broken(right)
    ended._process = SimpleNamespace(poll=lambda: -9, returncode=-9)
    with pytest.raises(BrokenLawError, match="has ended with -9"):
        ended.check()
