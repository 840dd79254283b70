"""Whatever ends a command: one message, an exit code, no traceback."""

import gzip
import os
import signal
import subprocess
import sys
import time

import pytest

from nrs.cli.report import Terminated, report
from nrs.datasets import table_files

TIMEOUT = 60


def _nrs(*arguments, **given):
    given = {"stdin": subprocess.DEVNULL, "timeout": TIMEOUT, "text": True} | given
    if "stdout" not in given:
        given["stdout"] = subprocess.PIPE
    command = [sys.executable, "-m", "nrs", *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, check=False, **given)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("rows must be 3; got 4"), 2, "error: rows must be 3; got 4"),
        (MemoryError(), 1, "error: out of memory; use fewer rows"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes"), 1, "out of memory;"),
        (RecursionError("maximum recursion depth"), 1, "nested too deeply; flatten it"),
        (KeyError("rows"), 1, "unexpected KeyError: 'rows'; this is a defect of nrs. NRS_LOG_FILE"),
        (AssertionError(), 1, "unexpected AssertionError: no message"),
        (OSError(28, "No space left on device", "a.csv"), 2, "No space left on device: a.csv"),
        (KeyboardInterrupt(), 130, "interrupted; no file is half written. Run the same"),
        (Terminated(signal.SIGTERM), 143, "terminated; no file is half written"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_end_is_one_line(error, code, message, capsys):
    assert report(error, 2) == code
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


def test_a_traceback_is_logged_on_request(tmp_path, monkeypatch, capsys):
    path = tmp_path / "nrs.log"
    monkeypatch.setenv("NRS_LOG_FILE", str(path))
    for name in ("first", "second"):
        try:
            raise KeyError(name)
        except KeyError as error:
            report(error)
    logged = path.read_text()
    assert logged.count("Traceback") == 2
    assert "KeyError: 'second'" in logged
    assert f"(traceback in {path})" in capsys.readouterr().err
    monkeypatch.setenv("NRS_LOG_FILE", str(tmp_path))
    report(KeyError("third"))
    assert "NRS_LOG_FILE cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("error", [MemoryError(), KeyError("x"), RecursionError("deep")])
def test_no_command_shows_a_traceback(error, run, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr("nrs.files.read.read_labelled", fail)
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    result = run("fit", tmp_path / "rows.csv", "-t", "b", "-o", tmp_path / "m")
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert isinstance(result.exception, SystemExit)


def test_a_log_file_is_no_input(run, tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n")
    monkeypatch.setenv("NRS_LOG_FILE", str(path))
    result = run("fit", path, "-t", "c")
    assert result.exit_code == 2
    assert "is an input" in result.output
    assert path.read_text() == "a,b\n1,2\n"


def test_devices_and_named_pipes_are_refused_by_every_command(churn, run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    model = churn[0] / "churn.safetensors"
    for path in ("/dev/zero", tmp_path / "pipe"):
        for arguments in (
            ("fit", path, "-t", "a"), ("tune", path, "-t", "a"), ("compare", path, "-t", "a"),
            ("predict", model, path), ("predict", path, churn[0] / "new.csv"),
            ("evaluate", model, path), ("explain", path), ("info", path), ("export", path),
            ("train", "vision", "--config", path),
        ):  # fmt: skip
            result = run(*arguments)
            assert result.exit_code == 2, (arguments, result.output)
            assert f"{path} is a " in result.output
            assert result.output.count("\n") == 1


def test_a_pipe_of_the_shell_is_read(churn):
    read, write = os.pipe()
    os.write(write, (churn[0] / "new.csv").read_bytes())
    os.close(write)
    result = _nrs("predict", churn[0] / "churn.safetensors", f"/dev/fd/{read}", pass_fds=[read])
    os.close(read)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 81


def test_the_expansion_of_compressed_input_is_bounded(churn, run, tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "MIN_EXPANDED_BYTES", 1 << 20)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * (1 << 20)))
    result = run("fit", path, "-t", "b")
    assert result.exit_code == 2
    assert "bomb.csv.gz expands to more than " in result.output
    assert "decompress it first" in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize("line", ['{"a":' * 10**5 + "1" + "}" * 10**5, "[" * 10**5])
@pytest.mark.parametrize("before", [0, 40_000])
def test_deep_json_is_refused(churn, tmp_path, line, before):
    line = line if line[0] == "{" else f'{{"a":{line}}}'
    (tmp_path / "deep.jsonl").write_text('{"a": 1}\n' * before + line + "\n")
    result = _nrs("fit", tmp_path / "deep.jsonl", "-t", "a")
    assert result.returncode == 2
    assert "has values nested more than 100 deep; flatten them" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_deep_configuration_is_refused(run, tmp_path):
    (tmp_path / "deep.toml").write_text("a=" + "[" * 10**5)
    result = run("train", "vision", "--config", tmp_path / "deep.toml")
    assert result.exit_code == 1
    assert result.output == "error: the input is nested too deeply; flatten it\n"


def test_a_reader_that_has_seen_enough_is_no_error(churn):
    read, write = os.pipe()
    os.close(read)
    for arguments in (
        ("predict", churn[0] / "churn.safetensors", churn[0] / "new.csv"),
        ("info", churn[0] / "churn.safetensors"),
        ("--help",),
    ):
        result = _nrs(*arguments, stdout=write)
        assert (result.returncode, result.stderr) == (0, ""), arguments
    os.close(write)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_an_error(churn):
    for arguments in (
        ("predict", churn[0] / "churn.safetensors", churn[0] / "new.csv"),
        ("info", churn[0] / "churn.safetensors"),
    ):
        with open("/dev/full", "w") as full:
            result = _nrs(*arguments, stdout=full)
        assert result.returncode in (1, 2)
        assert result.stderr == "error: No space left on device\n"


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)])
def test_a_signal_unwinds_and_leaves_nothing_behind(churn, tmp_path, number, code):
    command = ["predict", churn[0] / "churn.safetensors", "-", "-o", tmp_path / "out.csv"]
    with subprocess.Popen(
        [sys.executable, "-m", "nrs", *map(str, command)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        end = time.monotonic() + TIMEOUT
        while not list(tmp_path.glob(".out.csv.tmp-*")):
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(getattr(signal, number))
        _, shown = process.communicate(timeout=TIMEOUT)
    assert process.returncode == code
    assert "no file is half written" in shown
    assert shown.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_a_terminated_fit_leaves_nothing_behind(churn, tmp_path):
    (tmp_path / "work").mkdir()
    command = ["fit", churn[0] / "churn.csv", "-t", "churned", "--preset", "best"]
    with subprocess.Popen(
        [sys.executable, "-m", "nrs", *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path / "work",
        text=True,
    ) as process:
        assert process.stdout.readline()
        time.sleep(0.5)
        process.terminate()
        _, shown = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 143
    assert "Traceback" not in shown
    assert os.listdir(tmp_path / "work") == []
