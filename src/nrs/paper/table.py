"""What a table of the paper is: its printed cells, and what is measured to fill them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Setting = tuple[tuple[str, int | float | str], ...]


class NotHereError(Exception):
    """A cell cannot be measured here: its data or a package is absent. The message says which."""


@dataclass(frozen=True)
class Subject:
    """What a printed cell is measured on; with a seed it is a piece of work.

    Attributes
    ----------
    table : the one among whose results it is kept. A figure may read cells of another table.
    setting : what differs from the method's usual settings, for studies.

    Examples
    --------
    >>> Subject("n_mul", "letter", "NRS", (("n_mul", 50),)).path
    'n_mul/letter/NRS,n_mul=50'
    """

    table: str
    dataset: str
    method: str
    setting: Setting = ()

    @property
    def path(self) -> str:
        """Where its results are, below the results of the paper."""
        setting = [f"{name}={value}" for name, value in self.setting]
        method = ",".join(_plain(part) for part in (self.method, *setting))
        return f"{_plain(self.table)}/{_plain(self.dataset)}/{method}"


@dataclass(frozen=True)
class Cell:
    """One trial of a subject: table × dataset × method (× setting) × seed."""

    subject: Subject
    seed: int

    @property
    def path(self) -> str:
        """Its result file, below the results of the paper."""
        return f"{self.subject.path}/seed-{self.seed}.json"

    def identity(self) -> dict[str, Any]:
        """What the result file says it is a result of."""
        setting = {"setting": dict(self.subject.setting)}
        return vars(self.subject) | setting | {"seed": self.seed}


@dataclass(frozen=True)
class Search:
    """A choice of settings on the training part, made once for all trials and kept."""

    plan: str
    dataset: str
    method: str

    @property
    def path(self) -> str:
        """Its result file, below the results of the paper."""
        parts = (_plain(part) for part in (self.plan, self.dataset, self.method))
        return f"searches/{'/'.join(parts)}.json"

    def identity(self) -> dict[str, Any]:
        """What the result file says it is a result of."""
        return {"search": self.plan, "dataset": self.dataset, "method": self.method}


@dataclass(frozen=True)
class Printed:
    """One cell as the paper prints it.

    Attributes
    ----------
    row, column : where it stands; of a figure, the place on the x-axis and the line.
    subject : what is measured to fill it.
    metric : which number of a result it shows.
    reported, reported_std : the paper's values; a text is shown, not compared.
    note : what one should know before comparing.
    extra : what of it, "dataset" or "method", is not in the paper, such as another reading of a
        dataset: it is measured only when that is named, and shown only once it was measured.
    comparable : whether agreement with the reported value means anything: not for times on another
        machine or other data.
    exact : a count, which is the printed number or another one; else trials are compared by the
        paper's t-test.
    """

    row: str
    column: str
    subject: Subject
    metric: str = "accuracy"
    reported: float | str | None = None
    reported_std: float | None = None
    note: str = ""
    extra: frozenset[str] = frozenset()
    comparable: bool = True
    exact: bool = False


@dataclass
class Measured:
    """What one trial gives.

    Attributes
    ----------
    metrics : accuracies in percent, errors as they are.
    parts : the same by fold, where folds take the place of trials.
    times : ``fit_cpu_s``, ``fit_wall_s``, ``predict_cpu_s``, ``predict_wall_s``.
    settings : arguments of the estimator, and how they were chosen.
    data : sizes of the data.
    """

    metrics: dict[str, float]
    parts: dict[str, list[float]] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    model_bytes: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)


# Reads the finished searches that a cell needs: what each of them found.
Found = Mapping[Search, Mapping[str, Any]]


def no_searches(subject: Subject) -> tuple[Search, ...]:
    """The searches of a table whose settings are all fixed."""
    return ()


def cannot_search(search: Search) -> dict[str, Any]:
    """The search of a table that has none."""
    raise ValueError(f"this table has no searches, however: {search}")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table or figure of the paper as an experiment.

    Attributes
    ----------
    finding, protocol : what the paper claims in a sentence, and how it is measured here.
    measure : one trial. Raises `NotHereError` where data or a package is absent.
    searches : which searches must be finished before the trials of a subject.
    search : makes one, and gives what it found as JSON values.
    x_label, y_label, x_values : of a figure: axes, and the rows in order.
    trials : seeds 0, 1, … of every subject.
    single_trial : datasets evaluated by cross-validation, whose folds take the place of trials.
    reference : the column with which the others are compared by t-tests.
    lower_is_better : metrics of which less is better.
    tiny : a trial in small, for the table ``smoke``: made-up data, seconds. Tables of vector data
        have none; there the same code runs on small datasets.
    """

    name: str
    title: str
    finding: str
    protocol: str
    printed: tuple[Printed, ...]
    measure: Callable[[Cell, Found], Measured]
    searches: Callable[[Subject], tuple[Search, ...]] = no_searches
    search: Callable[[Search], dict[str, Any]] = cannot_search
    kind: Literal["table", "figure"] = "table"
    x_label: str = ""
    y_label: str = ""
    x_values: tuple[int | float | str, ...] = ()
    trials: int = 5
    single_trial: frozenset[str] = frozenset()
    reference: str | None = None
    lower_is_better: frozenset[str] = frozenset({"mse"})
    tiny: Callable[[Cell], Measured] | None = None

    def subjects(self) -> dict[Subject, frozenset[str]]:
        """Everything that is measured, in order, and what of it must be named for that."""
        found: dict[Subject, frozenset[str]] = {}
        for printed in self.printed:
            extra = found.get(printed.subject, printed.extra)
            found[printed.subject] = extra & printed.extra
        return found

    def seeds(self, subject: Subject, trials: int | None = None) -> range:
        """The seeds of a subject's trials."""
        if subject.dataset in self.single_trial:
            return range(1)
        return range(self.trials if trials is None else trials)


def _plain(name: str) -> str:
    """A name that is a file name everywhere.

    >>> _plain("MLP-D drop 80%")
    'MLP-D-drop-80'
    """
    return re.sub(r"[^A-Za-z0-9.,=_+-]+", "-", name).strip("-.") or "-"
