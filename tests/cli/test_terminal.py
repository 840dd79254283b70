"""Everything that commands print passes one module, which lets no escape sequence through."""

import ast
import io
import json
import os
import pty
import re
import subprocess
import sys

import pandas as pd
import pytest

from nrs.cli.terminal import Printed, echo, echo_json
from tests.test_house import SOURCE

EVIL = "\x1b]0;owned\x07\x9b31m\u202e"
COMMANDS = [path for path in (SOURCE / "cli").glob("*.py") if path.stem != "terminal"]


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.name)
def test_no_command_prints_in_another_way(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name not in ("print", "typer.echo", "typer.secho", "sys.stdout.write"), name
            assert "Console" not in name, name
            assert name != "typer.get_binary_stream", name


def _harmless(shown):
    return shown.replace("\n", "").isprintable()


@pytest.fixture(scope="module")
def evil(tmp_path_factory, run):
    """A table whose columns, cells, target and name hold escape sequences, and its model."""
    folder = tmp_path_factory.mktemp("evil") / f"in{EVIL}"
    folder.mkdir()
    rows = pd.DataFrame({f"a{EVIL}": range(60), f"b{EVIL}": [f"x{EVIL}", f"y\n{EVIL}"] * 30})
    rows["id"] = [f"{EVIL}{k}" for k in range(60)]
    rows[f"t{EVIL}"] = [f"no{EVIL}", f"yes{EVIL}"] * 30
    rows.to_csv(folder / f"rows{EVIL}.csv", index=False)
    # A terminal holds back what is not read.
    rows[:5].to_csv(folder / "few.csv", index=False)
    result = run(
        "fit", folder / f"rows{EVIL}.csv", "-t", f"t{EVIL}", "--preset", "fast", "--time-limit", 1,
        "-o", folder / f"m{EVIL}",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return folder, result.output


def test_no_command_lets_an_escape_sequence_through(evil, run):
    folder, fitted = evil
    assert _harmless(fitted)
    model, rows = folder / f"m{EVIL}.safetensors", folder / f"rows{EVIL}.csv"
    for arguments in (
        ("info", model), ("info", model, "--json"), ("explain", model),
        ("explain", model, "--json"), ("evaluate", model, rows),
        ("evaluate", model, rows, "--json"), ("evaluate", model, rows, "-t", f"x{EVIL}"),
        ("compare", rows, "-t", f"t{EVIL}", "--methods", "RF", "--folds", 2),
        ("predict", model, rows, "-o", folder / f"out{EVIL}.csv"),
        ("fit", rows, "-t", f"nothing{EVIL}"), ("fit", folder / f"none{EVIL}.csv", "-t", "a"),
        ("export", model, "-o", folder / f"x{EVIL}.onnx"),
    ):  # fmt: skip
        result = run(*arguments)
        assert _harmless(result.output), (arguments, result.output)
        if "--json" in arguments:
            json.loads(result.output)


def test_wrong_usage_shows_no_escape_sequence_either():
    command = [sys.executable, "-m", "nrs", f"--bad{EVIL}", f"more{EVIL}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 2
    assert _harmless(result.stderr), result.stderr


def test_a_table_on_a_terminal_is_printable_and_a_pipe_gets_its_bytes(evil):
    folder, _ = evil
    command = [
        sys.executable, "-m", "nrs", "predict", str(folder / f"m{EVIL}.safetensors"),
        str(folder / "few.csv"), "--keep", "id",
    ]  # fmt: skip
    ours, theirs = pty.openpty()
    subprocess.run(command, stdout=theirs, check=True, timeout=60)
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 1 << 16):
            shown += block
    except OSError:  # how a terminal ends
        pass
    finally:
        os.close(ours)
    assert _harmless(shown.decode().replace("\r\n", "\n"))
    assert r"\x1b]0;owned\x07" in shown.decode()
    piped = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    assert EVIL.encode() in piped


def test_a_character_may_come_in_two_blocks():
    file = io.BytesIO()
    printed = Printed(file)
    content = "é\x9b\n".encode()
    for place in range(len(content)):
        printed.write(content[place : place + 1])
    assert file.getvalue().decode() == "é\\x9b\n"


def test_lines_stay_lines_and_json_stays_json(capsys):
    echo("one", "two\nthree\x1b")
    assert capsys.readouterr().out == "one\ntwo\\nthree\\x1b\n"
    value = {"a\x9b": ["é", "\U000e0001", "\u2028", "\udc80"]}
    echo_json(value)
    shown = capsys.readouterr().out
    assert json.loads(shown) == value
    assert _harmless(shown)
    assert "é" in shown


def test_warnings_and_logs_print():
    code = (
        "import logging, warnings; from nrs.cli.terminal import show_warnings; show_warnings()\n"
        "warnings.warn('a\\x1b[31m', UserWarning); logging.getLogger('x').warning('b\\x1b[31m')"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert re.fullmatch(r"warning: a\\x1b\[31m\nb\\x1b\[31m\n", result.stderr)


def test_how_far_a_fit_is_shows_in_lines_where_there_is_no_terminal():
    code = (
        "import logging; from nrs.cli.terminal import show_warnings; show_warnings()\n"
        "for epoch in range(50): logging.getLogger('nrs.training').info('epoch %d', epoch)\n"
        "logging.getLogger('nrs.training').warning('serious')"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (result.stdout, result.stderr) == ("", "epoch 0\nserious\n")


def test_a_fit_logs_its_epochs(churn, run, tmp_path, caplog):
    with caplog.at_level("INFO", logger="nrs.training"):
        fit = ("fit", churn[0] / "churn.csv", "-t", "churned", "--preset", "fast", "--no-report")
        assert run(*fit, "-o", tmp_path / "m").exit_code == 0
        logged = len(caplog.messages)
        assert run(*fit, "-o", tmp_path / "n", "--quiet").exit_code == 0
    assert re.match(r"epoch 1 of \d+ .* val_loss", caplog.messages[0])
    assert len(caplog.messages) == logged
