"""A labelled folder of pictures or clouds, and what a model answered for each file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nrs.files.scores import Scored

# A caption and a PNG file.
Drawing = tuple[str, bytes]


@dataclass(frozen=True)
class EvaluatedFolder:
    """What a model answered for the files of a folder whose classes are known.

    Attributes
    ----------
    scored : Scored
        Truth and answers of the files that could be read, in the order of `paths`.
    paths : list of Path
        Those files.
    skipped : list of (Path, str)
        Files that could not be read, and why.
    draw : callable
        From a place in `paths` to drawings that explain the answer, for the page.
    note : str
        Which files these are, if not all of the folder.
    facts : dict of str to str
        What the page says of the model.
    """

    scored: Scored
    paths: list[Path]
    skipped: list[tuple[Path, str]]
    draw: Callable[[int], list[Drawing]]
    note: str = ""
    facts: dict[str, str] = field(default_factory=dict)

    def worst(self, most: int) -> list[int]:
        """Places of the files whose true class got the least probability, the least first."""
        scored = self.scored
        assert scored.probabilities is not None
        assert scored.classes is not None
        true = scored.truth[:, None] == scored.classes
        order = np.argsort((scored.probabilities * true).sum(1), kind="stable")
        return [int(place) for place in order[:most]]


def score_files(
    source: str,
    truth: Sequence[str],
    probabilities: np.ndarray,
    classes: Sequence[str],
) -> Scored:
    """Scores of files from the names of their classes and the answers of a model.

    **Shape** probabilities ``(n, n_classes)``, in the order of `classes`.

    Parameters
    ----------
    source : str
        Where the files come from, such as a folder.
    truth : sequence of str
        The name of each file's class; one that the model does not know counts as a mistake.
    probabilities : ndarray
    classes : sequence of str
        What the model answers, in any order; classes of one name are one class.

    Examples
    --------
    >>> chances = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> score_files("birds", ["wren", "tern"], chances, ["wren", "tern"]).scores()["accuracy"]
    1.0
    """
    names, places = np.unique(np.asarray(classes, dtype=str), return_inverse=True)
    by_name = np.zeros((len(probabilities), len(names)))
    for column, place in enumerate(places):
        by_name[:, place] += probabilities[:, column]
    return Scored(
        source,
        np.arange(len(truth)),
        np.asarray(truth, dtype=str),
        names[by_name.argmax(1)],
        by_name,
        names,
    )
