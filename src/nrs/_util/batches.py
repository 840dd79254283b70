"""Work of many threads, done together while there is more than can be done at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(eq=False)
class _Ticket:
    """Features that wait for their outputs; without any where their batch failed."""

    features: np.ndarray
    done: bool = False
    outputs: Any = None
    # How many requests went through the network together.
    together: int = 1


class Batches:
    """Rows of many threads: what waits while the network works goes through it together.

    The outputs of a row do not depend on the rows next to it.

    Parameters
    ----------
    forward : function of features (n_rows, n_features) to outputs (n_rows, n_outputs).
    at_once : int
        How many batches at the same time; while one place is free, nobody waits.
    max_rows : int
        Rows that several requests may have together.

    Examples
    --------
    >>> batches = Batches(lambda features: features.sum(1, keepdims=True))
    >>> batches.forward(np.ones((2, 3)))
    (array([[3.],
           [3.]]), 1)
    """

    def __init__(
        self, forward: Callable[[np.ndarray], Any], at_once: int = 1, max_rows: int = 10_000
    ) -> None:
        self._forward, self._free, self._max_rows = forward, at_once, max_rows
        self._changed = threading.Condition()
        self._waiting: list[_Ticket] = []

    @property
    def n_waiting(self) -> int:
        """How many threads wait for others to end."""
        return len(self._waiting)

    def forward(self, features: np.ndarray) -> tuple[Any, int]:
        """The outputs of these rows, and how many requests went through the network with them."""
        ticket = _Ticket(features)
        with self._changed:
            self._waiting.append(ticket)
            self._changed.wait_for(
                lambda: ticket.done or (self._free > 0 and ticket in self._waiting)
            )
            if not ticket.done:
                batch = self._take(ticket)
                self._free -= 1
        if not ticket.done:
            self._run(batch)
        if ticket.outputs is None:
            # Someone's rows failed; each finds out by itself whether it was its own.
            return self._forward(features), 1
        return ticket.outputs, ticket.together

    def _take(self, first: _Ticket) -> list[_Ticket]:
        batch: list[_Ticket] = []
        n_rows = 0
        for ticket in [first, *(one for one in self._waiting if one is not first)]:
            n_rows += len(ticket.features)
            if batch and n_rows > self._max_rows:
                break
            batch.append(ticket)
        self._waiting = [ticket for ticket in self._waiting if ticket not in batch]
        return batch

    def _run(self, batch: list[_Ticket]) -> None:
        try:
            outputs = self._forward(np.concatenate([ticket.features for ticket in batch]))
            first = 0
            for ticket in batch:
                ticket.outputs = outputs[first : first + len(ticket.features)]
                ticket.together = len(batch)
                first += len(ticket.features)
        except ValueError:
            if len(batch) == 1:
                raise
        finally:
            with self._changed:
                self._free += 1
                for ticket in batch:
                    ticket.done = True
                self._changed.notify_all()
