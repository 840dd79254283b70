"""Several columns of a table predicted by one model: numbers, or yes and no."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nrs.files.schema import Task, guess_task, one_value, target_values
from nrs.files.scores import Judged
from nrs.tabular.targets import ClassTarget, RegressionTarget


@dataclass(frozen=True)
class SeveralTargets:
    """The columns that one model predicts.

    Attributes
    ----------
    names : list of str
    labels : list of [label, label], or None
        The two values of each column, sorted; None for numbers.

    Examples
    --------
    >>> import pyarrow
    >>> table = pyarrow.table({"ill": ["yes", "no"], "old": [False, True]})
    >>> targets, why = SeveralTargets.of(table, ["ill", "old"])
    >>> targets.task, targets.labels
    ('classification', [['no', 'yes'], [False, True]])
    >>> targets.encode(table)
    array([[1, 0],
           [0, 1]])
    """

    names: list[str]
    labels: list[list[Any]] | None = None

    @property
    def task(self) -> Task:
        return "regression" if self.labels is None else "classification"

    @classmethod
    def of(cls, table: Any, names: Sequence[str], task: str = "auto") -> tuple[SeveralTargets, str]:
        """Read from a ``pyarrow.Table`` what the columns hold, and say why.

        Columns of two values each are classes; else they must hold numbers.

        Raises
        ------
        ValueError
            If a column has one value only, or the columns cannot be predicted by one model.
        """
        guesses = {name: guess_task(table.column(name))[0] for name in names}
        values = {name: np.unique(target_values(table.column(name), guesses[name]))
                  for name in names}  # fmt: skip
        for name, found in values.items():
            if len(found) < 2:
                raise one_value(name, found[0].item())
        many = [name for name in names if len(values[name]) > 2]
        texts = [name for name in names if values[name].dtype.kind not in "biuf"]
        if task == "classification" or (task == "auto" and (texts or not many)):
            if many:
                raise _too_many(many[0], values[many[0]])
            return cls(list(names), [values[name].tolist() for name in names]), "two values each"
        if texts:
            raise ValueError(
                f"regression needs targets of numbers, however: {texts[0]!r} holds text; "
                "use --task classification"
            )
        return cls(list(names)), "all hold numbers"

    @classmethod
    def of_model(cls, model: Any, names: Sequence[str] | None = None) -> SeveralTargets | None:
        """Those of a fitted model; None if it has one target.

        Parameters
        ----------
        model : a fitted estimator
        names : sequence of str, optional
            What the columns are called; as in ``nrs fit`` if None, numbers if that is not known.

        Raises
        ------
        ValueError
            If there are more or fewer names than targets.
        """
        target = model.target_
        if isinstance(target, ClassTarget) or getattr(target, "single", False):
            return None
        n = target.n_outputs
        about = model.about_ or {}
        if names is None:
            names = about.get("target") or [str(place) for place in range(n)]
        if len(names) != n:
            names = target_names(names)
        if len(names) != n:
            raise ValueError(
                f"the model predicts {n} targets, however: {len(names)} named; name as many"
            )
        if isinstance(target, RegressionTarget):
            return cls(list(names))
        return cls(list(names), about.get("labels") or [[0, 1] for _ in names])

    @property
    def kinds(self) -> dict[str, str]:
        """What the columns hold, by name, in the words of a table's reader."""
        if self.labels is None:
            return dict.fromkeys(self.names, "number")
        words = {bool: "boolean", str: "category"}
        firsts = [words.get(type(labels[0]), "number") for labels in self.labels]
        return dict(zip(self.names, firsts, strict=True))

    def encode(self, table: Any) -> np.ndarray:
        """The columns of a table as a model takes them: (n_rows, n_targets), numbers or 0 and 1.

        Raises
        ------
        ValueError
            If a column holds other values than in the fit.
        """
        columns = []
        for place, name in enumerate(self.names):
            if self.labels is None:
                columns.append(target_values(table.column(name), "regression"))
                continue
            truth, labels = target_values(table.column(name), "classification"), self.labels[place]
            if isinstance(labels[0], str):
                # A file with types of its own may hold numbers where the model knows text.
                truth = truth.astype(str)
            other = ~np.isin(truth, labels)
            if other.any():
                raise ValueError(
                    f"{name!r} must hold {labels[0]!r} or {labels[1]!r} as in the fit, however: "
                    f"it holds {truth[other][0].item()!r}; check the file"
                )
            columns.append((truth == labels[1]).astype(np.int64))
        return np.column_stack(columns)

    def predicted(
        self, values: np.ndarray, word: str = "prediction", *, chances: bool = False
    ) -> dict[str, np.ndarray]:
        """A column for each target of what a model said of it, (n_rows, n_targets).

        Parameters
        ----------
        values : ndarray (n_rows, n_targets)
            Numbers, 0 and 1, or probabilities.
        word : str
            What the columns' names begin with.
        chances : bool
            Whether the values are probabilities of the second labels.
        """
        found = {}
        for place, name in enumerate(self.names):
            if not chances:
                found[f"{word}_{name}"] = self.decode(place, values[:, place])
                continue
            label = self.labels[place][1] if self.labels else 1
            # Of true and 1 the label says no more than the name.
            found[f"{word}_{name}" + ("" if label == 1 else f"_{label}")] = values[:, place]
        return found

    def decode(self, place: int, values: np.ndarray) -> np.ndarray:
        """Predictions of one target, (n_rows,), in the words of its column."""
        if self.labels is None:
            return values
        return np.asarray(self.labels[place])[values.astype(np.int64)]

    def judged(
        self, predicted: np.ndarray, truth: np.ndarray, source: str, rows: np.ndarray
    ) -> JudgedTargets:
        """Set predictions beside the truth.

        **Shape** predicted ``(n, n_targets)``, numbers or probabilities of each second label;
        truth ``(n, n_targets)`` as :meth:`encode` gives it.
        """
        parts = {}
        for place, name in enumerate(self.names):
            found, true = predicted[:, place], self.decode(place, truth[:, place])
            if self.labels is None:
                parts[name] = Judged(source, rows, true, found)
                continue
            chances, classes = np.column_stack([1 - found, found]), np.asarray(self.labels[place])
            labels = self.decode(place, found > 0.5)
            parts[name] = Judged(source, rows, true, labels, chances, classes)
        return JudgedTargets(parts)


@dataclass(frozen=True)
class JudgedTargets:
    """What was predicted of several targets: a :class:`nrs.files.scores.Judged` for each.

    Examples
    --------
    >>> truth = np.array([[1.0, 5.0], [2.0, 7.0]])
    >>> judged = SeveralTargets(["a", "b"]).judged(truth, truth, "held-out rows", np.arange(2))
    >>> judged.scores(), judged.scores_by_target()["b"]["mae"]
    ({'r2': 1.0}, 0.0)
    """

    parts: dict[str, Judged]

    def __len__(self) -> int:
        return len(self._first)

    @property
    def _first(self) -> Judged:
        return next(iter(self.parts.values()))

    @property
    def source(self) -> str:
        return self._first.source

    @property
    def rows(self) -> np.ndarray:
        return self._first.rows

    @property
    def right(self) -> np.ndarray:
        """Of classes, whether each was predicted: (n, n_targets)."""
        return np.column_stack([one.truth == one.predicted for one in self.parts.values()])

    def scores(self) -> dict[str, float]:
        """Means over the targets; of classes also how often all of a row were right."""
        found = list(self.scores_by_target().values())
        if self._first.classes is None:
            # Errors in different units have no mean.
            return {"r2": float(np.mean([one["r2"] for one in found]))}
        shared = [name for name in found[0] if all(name in one for one in found)]
        means = {name: float(np.mean([one[name] for one in found])) for name in shared}
        return {"all_right": float(self.right.all(1).mean())} | means

    def scores_by_target(self) -> dict[str, dict[str, float]]:
        """The scores of each target, by name."""
        return {name: one.scores() for name, one in self.parts.items()}


def labelled_rows(table: Any, targets: Sequence[str]) -> Any:
    """Whether a row has a value of every target: a pyarrow array of booleans."""
    import pyarrow.compute as pc

    # A file with types of its own may hold NaN where a value is missing.
    masks = [pc.is_null(table.column(name), nan_is_null=True) for name in targets]
    return pc.invert(functools.reduce(pc.or_, masks))


def target_names(asked: str | Sequence[str], names: Sequence[str] = ()) -> list[str]:
    """The columns that ``--target`` means among those of a table.

    Examples
    --------
    >>> target_names("price,rent", ["price", "rent", "rooms"])
    ['price', 'rent']
    >>> target_names("price,net", ["price,net", "rooms"])
    ['price,net']

    Raises
    ------
    ValueError
        If a column comes twice, or none is named.
    """
    found: list[str] = []
    for text in [asked] if isinstance(asked, str) else asked:
        # A column's own name may hold commas.
        apart = [text] if text in names else [name.strip() for name in text.split(",")]
        found += [name for name in apart if name]
    twice = [name for name in found if found.count(name) > 1]
    if twice or not found:
        came = f"{twice[0]!r} comes twice" if twice else "none is named"
        raise ValueError(f"--target must name each column once, however: {came}; name others")
    return found


def _too_many(name: str, values: np.ndarray) -> ValueError:
    shown = ", ".join(repr(value) for value in values[:4].tolist())
    return ValueError(
        f"classes of several targets must have two values each, however: {name!r} has "
        f"{len(values)}: {shown}{', …' if len(values) > 4 else ''}; fit a model for it alone"
    )
