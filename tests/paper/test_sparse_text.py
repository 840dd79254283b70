"""Sparse text: the index that is read, and the same texts for every method."""

import pytest

from nrs.paper import sparse_text
from nrs.paper.sparse_text import METHODS, _tiny, packages, read_packages
from nrs.paper.table import Cell, NotHereError, Subject

INDEX = """Package: 0ad
Version: 0.0.26-3
Description: Real-time strategy game of ancient warfare
Tag: game::strategy, interface::graphical,
 uitoolkit::sdl
Section: games

Package: nothing
Section: misc

Package: zsh
Description: shell with lots of features
Section: non-free/shells
"""


def test_the_index_of_packages():
    assert read_packages(INDEX) == [
        ("Real-time strategy game of ancient warfare", "games"),
        ("shell with lots of features", "shells"),
    ]


def test_elsewhere_it_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(sparse_text.shutil, "which", lambda name: None)
    with pytest.raises(NotHereError, match="there is no apt"):
        packages()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_reads_sparse_columns(method):
    measured = _tiny(Cell(Subject("sparse_text", "Debian", method), 0))
    assert measured.metrics["accuracy"] > 30
    assert measured.data["n_features"] > 5
    assert set(measured.times) >= {"fit_cpu_s"}
