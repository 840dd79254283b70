import io
import sys

import pytest

from nrs._util.progress import Bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("verbose", "logs"), [(0, False), (1, False), (2, True)])
def test_off_a_terminal_there_is_no_bar(capsys, verbose, logs):
    with Bar("work", verbose=verbose) as bar:
        bar.update(completed=1.0)
        bar.write("a line")
    assert (bar.shown, bar.logs) == (False, logs)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("kind", "shown"), [("part", "50%"), ("bytes", "1/2 bytes"), ("items", "1/2")]
)
def test_a_terminal_shows_a_bar(monkeypatch, kind, shown):
    pytest.importorskip("rich")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Bar("work", total=2, kind=kind) as bar:
        bar.update(advance=1)
        bar.write("[a] line")
    assert (bar.shown, bar.logs) == (True, False)
    assert shown in terminal.getvalue()
    assert "[a] line" in terminal.getvalue()


def test_a_terminal_without_rich_gets_log_lines(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setitem(sys.modules, "rich", None)
    assert Bar("work").logs
    assert not Bar("work", verbose=0).logs


def test_without_standard_error_there_is_silence(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    assert not Bar("work").shown
