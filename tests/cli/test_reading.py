"""How cells are written can be said to every command that reads a table."""

import inspect
import json

import numpy as np
import pandas as pd
import pytest

from nrs.cli.app import app
from nrs.cli.reading import read_types

OPTIONS = ("--encoding", "--sheet", "--decimal", "--dates", "--na", "--type")
COMMANDS = {
    "check": (), "fit": (), "tune": (), "compare": (),
    "predict": ("m",), "evaluate": ("m",), "explain": ("m",),
}  # fmt: skip


def test_types_are_read():
    assert read_types(["zip=category", "a=b=date"]) == {"zip": "category", "a=b": "date"}
    with pytest.raises(ValueError, match="COLUMN=TYPE"):
        read_types(["zip"])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_reads_a_table_takes_them(command):
    [found] = [one for one in app.registered_commands if one.callback.__name__ == command]
    taken = inspect.signature(found.callback).parameters
    assert {"encoding", "sheet", "decimal", "dates", "na", "types"} <= taken.keys()
    assert "reading" not in taken


@pytest.fixture(scope="module")
def model(tmp_path_factory, run):
    """A model of numbers as they are usually written, and the same rows in another dialect."""
    folder = tmp_path_factory.mktemp("dialect")
    generator = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"x": generator.normal(size=120).round(3), "zip": generator.integers(3, size=120)}
    )
    rows["y"] = (2 * rows["x"] + rows["zip"]).round(3)
    rows.to_csv(folder / "rows.csv", index=False)
    rows.loc[::10, "x"] = -7
    rows.to_csv(folder / "plain.csv", index=False)
    rows["x"] = rows["x"].map("{:.3f}".format).str.replace(".", ",")
    rows["y"] = rows["y"].map("{:.3f}".format).str.replace(".", ",")
    rows.to_csv(folder / "other.csv", sep=";", index=False, encoding="utf-16")
    fit = ("fit", folder / "rows.csv", "-t", "y", "--preset", "fast", "--time-limit", 2)
    result = run(*fit, "--no-report", "-q", "-o", folder / "m")
    assert result.exit_code == 0, result.output
    return folder


def _json(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_rows_in_another_dialect_have_the_same_answers(model, run):
    path, other = model / "m.safetensors", model / "other.csv"
    # What -7 stands for is not said by the file that the model was fitted to.
    expected = run("predict", path, model / "plain.csv", "--na", "-7.0").output
    found = run("predict", path, other, "--decimal", ",", "--na", "-7,000").output
    assert expected == found
    assert found != run("predict", path, model / "plain.csv").output

    scores = _json(run("evaluate", path, other, "--decimal", ",", "--na", "-7,000", "--json"))
    assert scores == _json(run("evaluate", path, model / "plain.csv", "--na", "-7.0", "--json"))

    wrong = run("predict", path, other)
    assert wrong.exit_code == 2
    assert "must hold numbers in column 'x'" in wrong.output


def test_a_table_is_read_as_said_when_it_is_checked_and_compared(model, run):
    said = _json(run("check", model / "other.csv", "--decimal", ",", "--na", "-7,000", "--json"))
    assert any(one.startswith("numbers with a decimal comma: x, y (") for one in said["read"])
    compared = _json(
        run(
            "compare",
            model / "other.csv",
            "-t",
            "y",
            "--decimal",
            ",",
            "--type",
            "zip=category",
            "--methods",
            "RF",
            "--folds",
            2,
            "--json",
        )
    )
    assert compared["task"] == "regression"


@pytest.mark.parametrize("command", ["predict", "evaluate", "fit"])
def test_a_file_with_types_of_its_own_is_not_read_otherwise(model, command, run, tmp_path):
    path = tmp_path / "rows.parquet"
    pd.read_csv(model / "rows.csv").to_parquet(path)
    given = ("-t", "y") if command == "fit" else ()
    before = sorted(tmp_path.iterdir())
    file = () if command == "fit" else (model / "m.safetensors",)
    result = run(command, *file, path, "--decimal", ",", *given)
    assert result.exit_code == 2
    assert "has types of its own" in result.output
    assert sorted(tmp_path.iterdir()) == before
