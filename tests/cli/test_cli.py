"""The command line: help, exit codes, messages without tracebacks, quick start."""

import json
import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from nrs.cli.app import app

runner = CliRunner()


def _run(*arguments):
    return runner.invoke(app, list(arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("datasets",), ("paper",), ("datasets", "list"), ("datasets", "info"),
        ("datasets", "get"), ("paper", "list"), ("paper", "run"), ("paper", "show"),
        ("paper", "report"), ("train",), ("train", "vision"), ("predict",),
    ],
)  # fmt: skip
def test_help_of_every_command(arguments):
    result = _run(*arguments, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


@pytest.mark.parametrize(
    "command", ["fit", "predict", "evaluate", "explain", "compare", "info", "export"]
)
def test_help_has_an_example_and_json(command):
    result = _run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: nrs {command}" in result.output
    assert "--json" in result.output


def test_version():
    assert _run("--version").output.startswith("nrs ")


@pytest.mark.parametrize("arguments", [("--help",), ("paper", "--help"), ("--version",)])
def test_help_imports_nothing_heavy(arguments):
    code = (
        "import sys; from nrs.cli.main import main\n"
        f"sys.argv = ['nrs', *{arguments!r}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'sklearn', 'numpy', 'scipy', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_without_typer_the_extra_is_named():
    code = (
        "import sys; sys.modules['typer'] = None\nfrom nrs.cli.main import main\n"
        "sys.argv = ['nrs']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'neural-random-subspace[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_python_m_nrs():
    done = subprocess.run(
        [sys.executable, "-m", "nrs", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout[:4]) == (0, "nrs ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("paper", "show", "acuracy"), 1, "did you mean 'accuracy'"),
        (("paper", "run", "no_such:TABLE"), 1, "must be importable"),
        (("paper", "run", "accuracy", "--datasets", "leter"), 1, "however: 'leter'"),
        (("paper", "run", "accuracy", "--shard", "two"), 1, "--shard must be like 2/8"),
        (("paper", "run", "accuracy", "--shard", "9/8"), 1, "shard must be"),
        (("paper", "run", "accuracy", "--jobs", "0"), 2, "jobs"),
        (("paper", "run"), 2, "Missing argument"),
        (("paper", "report", "--results", "nowhere"), 1, "however: nowhere"),
        (("datasets", "info", "leter"), 1, "did you mean 'letter'"),
        (("paper", "walk"), 2, "No such command"),
    ],
)
def test_mistakes_are_told_without_a_traceback(arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = _run(*arguments)
    assert result.exit_code == code
    assert message in result.output
    assert "Traceback" not in result.output


def test_show_as_json_is_a_list_of_cells(tmp_path):
    result = _run("paper", "show", "accuracy", "--json", "--results", str(tmp_path))
    cells = json.loads(result.output)
    assert len(cells) == 210
    assert cells[0] == {
        "table": "accuracy", "row": "satimage", "column": "NRS", "metric": "accuracy",
        "reported": 91.52, "reported_std": 0.31, "measured": None, "measured_std": None, "n": 0,
        "status": "not run", "note": None, "in_paper": True, "comparable": True,
    }  # fmt: skip


def test_show_puts_reported_beside_measured(tmp_path):
    from nrs.paper import Cell, Results, Subject

    cell = Cell(Subject("accuracy", "letter", "NRS"), 0)
    Results(tmp_path).write(cell, {"status": "ok", "metrics": {"accuracy": 97.92}})
    output = _run("paper", "show", "accuracy", "--results", str(tmp_path)).output
    assert "97.85" in output
    assert "97.92" in output
    assert "satimage" not in output
    everything = _run("paper", "show", "accuracy", "--all", "--results", str(tmp_path)).output
    assert "satimage" in everything


def test_show_before_anything_was_run(tmp_path):
    result = _run("paper", "show", "accuracy", "--results", str(tmp_path / "none"))
    assert result.exit_code == 0
    assert "not run" in result.output


def test_list_names_every_table():
    names = {row["name"] for row in json.loads(_run("paper", "list", "--json").output)}
    assert {"accuracy", "speed", "ablation", "n_mul", "n_per", "n_h", "depth", "smoke"} <= names


def test_datasets_without_a_network(tmp_path, monkeypatch):
    monkeypatch.setenv("NRS_DATA", str(tmp_path))
    monkeypatch.setenv("NRS_CACHE", str(tmp_path / "cache"))
    rows = json.loads(_run("datasets", "list", "--json").output)
    by_name = {row["name"]: row for row in rows}
    assert by_name["letter"]["n_train"] == 15000
    assert not by_name["letter"]["here"]
    assert by_name["sklearn-wine"]["here"]
    assert "letter" in _run("datasets", "list").output
    facts = json.loads(_run("datasets", "info", "glass", "--json").output)
    assert "glass-merged" in facts["variants"]
    assert facts["split"] == "random"
    assert "glass-merged" in _run("datasets", "info", "glass").output
    assert _run("datasets", "get", "wine").exit_code == 0


def test_getting_what_cannot_be_reached_says_where_to_put_it(tmp_path):
    # A proxy that is not there stands for a machine without a network.
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy")}
    environment = os.environ | nowhere | {"NRS_DATA": str(tmp_path), "NRS_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "nrs", "datasets", "get", "sonar"],
        capture_output=True, text=True, env=environment, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("sub/churn.csv.gz", "churn"),
        ("sales.2024.csv", "sales.2024"),
        ("rows.v2/*.parquet", "rows.v2"),
        ("../*.arrow", "model"),
    ],
)
def test_a_model_is_called_like_its_table(source, name):
    from nrs.cli.fit import output_paths

    assert [path.name for path in output_paths(source, None)] == [
        f"{name}.safetensors",
        f"{name}.html",
    ]


def test_help_breaks_lines_where_the_terminal_ends():
    shown = _run("predict", "--help").output
    lines = [line.strip() for line in shown.splitlines()]
    start = next(at for at, line in enumerate(lines) if line.startswith("The rows of a table"))
    paragraph = lines[start : lines.index("", start)]
    assert min(len(line) for line in paragraph[:-1]) > 60


def _commands(group, *path):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, *path, name)
        else:
            yield (*path, name), command


@pytest.mark.parametrize(("path", "command"), list(_commands(typer.main.get_command(app))), ids=str)
def test_help_fits_80_columns_and_has_room_for_words(path, command):
    shown = runner.invoke(app, [*path, "--help"], env={"COLUMNS": "80"}).output
    lines = [line for line in shown.splitlines() if line.strip()]
    assert max(map(len, lines)) <= 80
    for one in command.params:
        # No text is squeezed into a narrow column at the right.
        start = next((line.index(one.help[:14]) for line in lines if one.help[:14] in line), None)
        assert start is not None, one.name
        assert start <= 42, one.name


def test_an_output_has_one_name_in_all_commands():
    for path, command in _commands(typer.main.get_command(app)):
        names = {name for one in command.params for name in getattr(one, "opts", [])}
        assert not names & {"--out", "--html"}, path
        if "--output" in names:
            assert "-o" in names, path
