"""How a cell of the vector-data tables is measured (paper, Section 4.2).

Load and preprocess as the paper does; choose settings on the training part, once for all trials;
fit on all of it; measure on the test part. Networks give the result of their last epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from nrs.baselines import model_size
from nrs.datasets import Dataset, folds, info, paper_preprocess, paper_table
from nrs.paper.methods import NETWORKS, Size, Task, candidates, estimator, is_nrs, searched_as
from nrs.paper.table import Cell, Found, Measured, NotHereError, Search, Subject
from nrs.paper.trial import Clock, best_of, load_or_reason

# The seed of searches; trials have 0, 1, ….
SEARCH_SEED = 42
# The authors' configurations say which layers follow NRS on these: see `nrs.tabular.recipe`.
KNOWN_WIDTH = frozenset({"satimage", "letter", "USPS", "MNIST", "GISETTE"})
# With more training rows, searching the layers takes hours on one core: as MNIST's.
LARGE = 100_000
LARGE_HEAD = {"hidden": [512, 512], "batch_size": 512}
# Training rows that choose the settings of NRS where all of them would take an hour on one core.
FEWER_ROWS = {"CIFAR-10": 10_000, "covtype-tenth": 10_000}
# One tenth of a small set is too small to choose by: so many tenths that they hold these rows.
ENOUGH_ROWS = 500


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The choices of a vector-data table.

    Attributes
    ----------
    size : of the peers: 500 trees for "accuracy", 100 for "speed".
    n_mul : by dataset, where it is not that of the paper's dataset table.
    epochs : by dataset, where it is fixed; elsewhere it is chosen from `epoch_choices`.
    tenths : at most so many held-out tenths of a small training part choose how NRS is trained.
    search_rows : at most so many training rows take part in a cross-validation over settings.
    n_folds : folds of a dataset that the paper evaluates by cross-validation.
    overrides : by method, the last word on an estimator's arguments.
    search_overrides : the same within a search: more trees than 100 make a forest better, not
        another.
    max_candidates : at most so many entries of a method's grid.
    prefix : of the names of its searches; searches are shared by plans with the same.
    """

    size: Size = "accuracy"
    n_mul: Mapping[str, int] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=lambda: {"letter": 100, "satimage": 50})
    epoch_choices: tuple[int, ...] = (20, 30, 40, 50)
    tenths: int = 10
    search_rows: int = 5_000
    search_folds: int = 5
    n_folds: int = 10
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    search_overrides: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {"RS": {"n_estimators": 100}, "RF": {"n_estimators": 100}}
    )
    max_candidates: int | None = None
    prefix: str = ""

    # What a table asks for.

    def searches(self, subject: Subject) -> tuple[Search, ...]:
        """Which search decides a subject's settings, if any."""
        method = searched_as(subject.method)
        task = task_of(subject.dataset)
        choices = self._candidates(subject.dataset, method, task)
        is_network = method in NETWORKS
        fixed = not is_network or self._fixed_epochs(subject.dataset, method) is not None
        if fixed and len(choices) == 1:
            return ()
        # Networks are the same in both sizes.
        size = "accuracy" if is_network else self.size
        return (Search(self.prefix + size, subject.dataset, method),)

    def search(self, search: Search) -> dict[str, Any]:
        """Choose settings on the training part of a dataset."""
        data = next(parts_of(search.dataset, SEARCH_SEED, self.n_folds))
        if search.method in NETWORKS:
            return self._search_network(search, data)
        return self._search_settings(search, data)

    def measure(self, cell: Cell, found: Found) -> Measured:
        """Run one trial."""
        subject = cell.subject
        settings = self._settings(subject, found)
        task = task_of(subject.dataset)
        scores: list[float] = []
        times: dict[str, float] = {}
        metric = "accuracy" if task == "classification" else "mse"
        for data in parts_of(subject.dataset, cell.seed, self.n_folds):
            model = estimator(subject.method, task, cell.seed, self.size, settings)
            with Clock("fit", times):
                model.fit(data.X_train, data.y_train)
            with Clock("predict", times):
                predicted = model.predict(data.X_test)
            scores.append(_score(task, data.y_test, predicted))
        n_classes = len(np.unique(data.y_train)) if task == "classification" else None
        return Measured(
            metrics={metric: float(np.mean(scores))},
            parts={metric: scores} if len(scores) > 1 else {},
            times=times,
            model_bytes=model_size(model),
            settings={
                "arguments": {k: v for k, v in settings.items() if v is not None},
                "estimator": type(model).__name__,
                "used": _used(model),
            },
            data={
                "n_train": len(data.X_train),
                "n_test": 0 if data.X_test is None else len(data.X_test),
                "n_features": data.n_features,
                "n_classes": n_classes,
                "folds": len(scores) if len(scores) > 1 else None,
            },
        )

    # How settings come about.

    def _settings(self, subject: Subject, found: Found) -> dict[str, Any]:
        method = searched_as(subject.method)
        settings = self._base(subject.dataset, subject.method)
        epochs = self._fixed_epochs(subject.dataset, method)
        if epochs is not None:
            settings["epochs"] = epochs
        for search in self.searches(subject):
            settings |= found[search]["chosen"]
        return settings | dict(subject.setting) | {**self.overrides.get(subject.method, {})}

    def _base(self, dataset: str, method: str) -> dict[str, Any]:
        if not is_nrs(method):
            return {}
        entry = info(dataset)
        row = entry.paper or entry.variant_of or ""
        n_mul = self.n_mul.get(dataset, self.n_mul.get(row))
        if n_mul is None and row in paper_table():
            n_mul = paper_table()[row].n_mul
        return {} if n_mul is None else {"n_mul": n_mul}

    def _fixed_epochs(self, dataset: str, method: str) -> int | None:
        if method not in NETWORKS:
            return None
        entry = info(dataset)
        return self.epochs.get(dataset, self.epochs.get(entry.variant_of or "", None))

    def _candidates(self, dataset: str, method: str, task: Task) -> list[dict[str, Any]]:
        known = not KNOWN_WIDTH.isdisjoint({dataset, info(dataset).variant_of})
        if method == "NRS" and (known or self._fixed_epochs(dataset, method) is not None):
            return [{}]
        if method == "NRS" and _n_train(dataset) > LARGE:
            return [LARGE_HEAD]
        return candidates(method, task)[: self.max_candidates]

    def _search_network(self, search: Search, data: Dataset) -> dict[str, Any]:
        """Read a longer run's held-out scores where it could have ended."""
        task, method = task_of(search.dataset), search.method
        fixed = self._fixed_epochs(search.dataset, method)
        ends = self.epoch_choices if fixed is None else (fixed,)
        choices = self._candidates(search.dataset, method, task)
        splits = self._splits(data, task, held_out=is_nrs(method) or method == "NDF-paper")
        tried = []
        for choice in choices:
            settings = self._base(search.dataset, method) | choice
            settings |= self.overrides.get(method, {})
            # The curve is wanted as far as it goes.
            settings |= {"epochs": max(ends), "patience": max(ends)}
            curves = []
            for train, test in splits:
                model = estimator(method, task, SEARCH_SEED, self.size, settings)
                X, y = data.X_train, data.y_train
                model.fit(X[train], y[train], eval_set=(X[test], y[test]))
                curves.append([_at(model.history_, end, task) for end in ends])
            for end, score in zip(ends, np.mean(curves, axis=0).tolist(), strict=True):
                # Accuracies of few rows are often equal: the lower loss decides.
                tried.append({"settings": choice | {"epochs": end}, "score": score})
        names = ["accuracy", "minus loss"] if task == "classification" else ["minus loss"]
        return best_of(tried, names, splits=_describe(splits))

    def _search_settings(self, search: Search, data: Dataset) -> dict[str, Any]:
        """Cross-validate a grid."""
        task, method = task_of(search.dataset), search.method
        splits = self._splits(data, task, held_out=False)
        tried = []
        for choice in self._candidates(search.dataset, method, task):
            settings = {**self.search_overrides.get(method, {}), **choice}
            settings |= self.overrides.get(method, {})
            scores = []
            for train, test in splits:
                model = estimator(method, task, SEARCH_SEED, self.size, settings)
                model.fit(data.X_train[train], data.y_train[train])
                score = _score(task, data.y_train[test], model.predict(data.X_train[test]))
                scores.append(score if task == "classification" else -score)
            tried.append({"settings": choice, "score": [float(np.mean(scores))]})
        name = "accuracy" if task == "classification" else "minus squared error"
        return best_of(tried, [name], splits=_describe(splits))

    def _splits(
        self, data: Dataset, task: Task, *, held_out: bool
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Row numbers of held-out tenths, or of folds of at most `search_rows` rows."""
        rows = np.arange(len(data.X_train))
        labels = data.y_train if task == "classification" else None
        if held_out:
            if data.name in FEWER_ROWS:
                n = FEWER_ROWS[data.name]
                rows = np.random.default_rng(SEARCH_SEED).choice(rows, n, replace=False)
                labels = None if labels is None else labels[rows]
            tenths = range(min(self.tenths, math.ceil(10 * ENOUGH_ROWS / len(rows))))
            options: dict[str, Any] = {"test_size": 0.1, "stratify": _strata(labels, 0.1)}
            return [
                tuple(train_test_split(rows, random_state=SEARCH_SEED + tenth, **options))
                for tenth in tenths
            ]
        if len(rows) > self.search_rows:
            share = self.search_rows / len(rows)
            rows, _ = train_test_split(
                rows, train_size=self.search_rows, random_state=SEARCH_SEED,
                stratify=_strata(labels, min(share, 1 - share)),
            )  # fmt: skip
        few = labels is not None and np.unique(labels[rows], return_counts=True)[1].min()
        stratified = labels is not None and few >= self.search_folds
        kind = StratifiedKFold if stratified else KFold
        splitter = kind(self.search_folds, shuffle=True, random_state=SEARCH_SEED)
        strata = labels[rows] if labels is not None and stratified else None
        return [(rows[train], rows[test]) for train, test in splitter.split(rows, strata)]


def task_of(dataset: str) -> Task:
    """Whether a dataset's rows have classes or numbers.

    >>> task_of("letter"), task_of("SARCOS")
    ('classification', 'regression')
    """
    return "regression" if info(dataset).task == "regression" else "classification"


def _n_train(dataset: str) -> float:
    """Training rows of the paper's split; a variant with its own share is trained as the whole."""
    rows = info(dataset).rows
    return rows["train"] if "train" in rows else 0.7 * rows["all"]


def parts_of(dataset: str, seed: int, n_folds: int) -> Iterator[Dataset]:
    """The paper's split of a dataset, or its folds, each preprocessed by its training part."""
    data = load_or_reason(dataset)
    if isinstance(data, str):
        raise NotHereError(data)
    if info(dataset).split == "folds":
        for part in folds(data, n=n_folds, seed=seed):
            yield paper_preprocess(part)
    else:
        yield paper_preprocess(data)


def _strata(labels: Any, share: float) -> Any:
    """Labels to stratify by, where every class can be on both sides."""
    if labels is None:
        return None
    counts = np.unique(labels, return_counts=True)[1]
    possible = counts.min() >= 2 and share * len(labels) >= len(counts)
    return labels if possible else None


def _score(task: Task, y: Any, predicted: Any) -> float:
    if task == "classification":
        return 100 * float(accuracy_score(y, predicted))
    return float(mean_squared_error(y, predicted))


def _at(history: Any, epoch: int, task: Task) -> list[float]:
    """Held-out scores after so many epochs; higher is better."""
    row = history.rows[epoch - 1]
    if task == "classification":
        return [100 * row["val_accuracy"], -row["val_loss"]]
    return [-row["val_loss"]]


def _describe(splits: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    train, test = splits[0]
    return {"n": len(splits), "rows_train": len(train), "rows_test": len(test)}


def _used(model: Any) -> dict[str, Any]:
    """All settings of a fitted estimator, defaults too."""
    recipe = getattr(model, "recipe_", None)
    used: dict[str, Any] = model.get_params(deep=False) if recipe is None else recipe.to_dict()
    return used
