"""Texts as 20,000 sparse columns: what the paper leaves to future work, high dimensions.

nrs paper run sparse_text
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from typing import Any

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split

from nrs.paper.methods import estimator
from nrs.paper.table import Cell, Found, Measured, NotHereError, Printed, Subject, Table
from nrs.paper.trial import Clock, device
from nrs.tabular import NRSClassifier

COLUMNS, ROWS, CLASSES, EPOCHS = 20_000, 4_000, 20, 20
METHODS = ("linear", "NRS fast", "NRS", "MLP-2", "LightGBM")
SHOWN = {"accuracy": "accuracy", "fit_cpu_s": "fit_cpu_s"}


def read_packages(text: str) -> list[tuple[str, str]]:
    """One-line description and section of each package of Debian's index.

    Examples
    --------
    >>> read_packages("Package: 0ad\\nDescription: a game of war\\nSection: contrib/games\\n")
    [('a game of war', 'games')]
    """
    found = []
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^(Description|Section): (.+)$", stanza, re.MULTILINE))
        if len(fields) == 2:
            found.append((fields["Description"], fields["Section"].rpartition("/")[2]))
    return found


def package_index() -> str:
    """Debian's index as this machine's Debian or Ubuntu knows it; NotHereError elsewhere."""
    if shutil.which("apt-cache") is None:
        raise NotHereError("the descriptions are those of Debian's packages, and there is no apt")
    done = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, timeout=120)
    return done.stdout.decode("utf-8", "replace")


def packages() -> list[tuple[str, str]]:
    """The packages of :func:`package_index`."""
    found = read_packages(package_index())
    if len(found) < 2 * ROWS:
        raise NotHereError("apt has no list of packages; run: apt-get update")
    return found


def make(method: str, seed: int) -> Any:
    """An unfitted estimator at fixed settings.

    Examples
    --------
    >>> make("NRS fast", 0).preset
    'fast'
    """
    if method == "linear":
        return LogisticRegression(C=10.0, max_iter=200)
    if method == "NRS fast":
        ours: dict[str, Any] = {"preset": "fast", "random_state": seed, "verbose": 0, "n_jobs": 1}
        return NRSClassifier(**ours, device=device())
    own = {"n_estimators": 100} if method == "LightGBM" else {"epochs": EPOCHS}
    return estimator(method, "classification", seed, "accuracy", own)


def trial(
    documents: list[tuple[str, str]], method: str, seed: int, rows: int, columns: int
) -> Measured:
    """Fit to the TF-IDF columns of some descriptions, and measure on as many others."""
    largest = [name for name, _ in Counter(kind for _, kind in documents).most_common(CLASSES)]
    kept = [(text, largest.index(kind)) for text, kind in documents if kind in largest]
    texts, labels = [text for text, _ in kept], [label for _, label in kept]
    train, test, y_train, y_test = train_test_split(
        texts, labels, train_size=rows, test_size=rows, random_state=seed, stratify=labels
    )
    # Words and pairs of words, counted in the training texts alone.
    words = TfidfVectorizer(ngram_range=(1, 2), max_features=columns, sublinear_tf=True)
    X_train, X_test = words.fit_transform(train), words.transform(test)
    model = make(method, seed)
    times: dict[str, float] = {}
    with Clock("fit", times):
        model.fit(X_train, y_train)
    with Clock("predict", times):
        predicted = model.predict(X_test)
    return Measured(
        metrics={"accuracy": 100 * float(accuracy_score(y_test, predicted))},
        times=times,
        data={"n_train": rows, "n_test": rows, "n_features": X_train.shape[1]},
    )


def _measure(cell: Cell, found: Found) -> Measured:
    return trial(packages(), cell.subject.method, cell.seed, ROWS, COLUMNS)


def _tiny(cell: Cell) -> Measured:
    """The same on made-up descriptions."""
    documents = [
        (f"a {kind} of sort {n % 7}", kind) for n in range(40) for kind in ("tool", "game")
    ]
    return trial(documents, cell.subject.method, cell.seed, 30, 50)


SPARSE_TEXT = Table(
    name="sparse_text",
    title=f"Sparse text, {COLUMNS:,} columns: accuracy (%) and CPU seconds of a fit",
    finding="None: the paper leaves high-dimensional sparse features to future work.",
    protocol=(
        f"One-line descriptions of Debian's packages, their section as the class ({CLASSES} "
        f"largest); {ROWS:,} training and as many test texts, drawn for each trial; TF-IDF of "
        f"words and pairs of words of the training texts, {COLUMNS:,} columns. Nothing is "
        f"searched. linear: logistic regression, C = 10; NRS: preset 'paper', n_mul 1, {EPOCHS} "
        f"epochs; NRS fast: the package's forest with preset='fast'; MLP-2: {EPOCHS} epochs; "
        "LightGBM: 100 rounds. One thread."
    ),
    printed=tuple(
        Printed(method, column, Subject("sparse_text", "Debian", method), metric=metric)
        for method in METHODS
        for column, metric in SHOWN.items()
    ),
    measure=_measure,
    trials=1,
    lower_is_better=frozenset({"fit_cpu_s"}),
    tiny=_tiny,
)
