"""The library speaks of Python's arguments, the commands of their options."""

import ast
import re

import pytest
from typer.testing import CliRunner

from nrs.cli.app import app
from nrs.cli.report import in_flags
from tests.test_house import SOURCE

LIBRARY = [
    *sorted((SOURCE / "files").glob("*.py")),
    *sorted((SOURCE / "datasets").glob("*.py")),
    SOURCE / "tabular" / "predict_file.py",
]


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.name)
def test_the_library_never_speaks_of_options(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not re.search(r"(^|\s)--[a-z]", node.value), node.value


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("drop must be known; got 'x'", "--drop must be known; got 'x'"),
        ("columns drop must not", "columns drop must not"),
        ("Use time_limit=3 or drop='a b'.", "Use --time-limit 3 or --drop 'a b'."),
        ("Choose target=COLUMN.", "Choose --target COLUMN."),
        ("n_drop=3, epochs=2", "n_drop=3, epochs=2"),
    ],
)
def test_arguments_become_options(message, shown):
    flags = {"drop": "--drop", "time_limit": "--time-limit", "target": "--target"}
    assert in_flags(message, flags) == shown
    assert in_flags(message, {}) == message


def test_only_the_options_of_the_command_are_named(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,x\n2,y\n")
    fit = CliRunner().invoke(app, ["fit", str(path), "-t", "b", "--task", "regression"])
    assert "Use --task classification." in fit.output
    (tmp_path / "latin.csv").write_bytes("a,b\n1,é\n".encode("latin-1"))
    fit = CliRunner().invoke(
        app, ["fit", str(tmp_path / "latin.csv"), "-t", "b", "--encoding", "utf-8"]
    )
    assert "such as --encoding latin-1" in fit.output
