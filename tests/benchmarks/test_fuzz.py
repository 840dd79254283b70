"""A fixed sample of the fuzzers of tables and command lines; `make test-fuzz` runs more."""

import importlib
import json
import sys

import pytest

from benchmarks.fuzz import __main__ as fuzz
from benchmarks.fuzz.run import run


@pytest.mark.parametrize(("name", "cases"), [("tables", 12), ("commands", 12)])
def test_a_sample_breaks_no_law(name, cases):
    report = run(name, importlib.import_module(f"benchmarks.fuzz.{name}").case, range(cases), 7)
    assert report.failures == []
    assert report.cases == cases
    assert report.counts.total() >= cases


def test_all_fuzzers_run_by_default_and_unknown_ones_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fuzz", "--cases", "0"])
    with pytest.raises(SystemExit) as ended:
        fuzz.main()
    assert not ended.value.code
    assert capsys.readouterr().out.count('"failures": []') == len(fuzz.FUZZERS)
    monkeypatch.setattr(sys, "argv", ["fuzz", "tabels"])
    with pytest.raises(SystemExit):
        fuzz.main()
    assert "known are tables, models, commands, kills" in capsys.readouterr().err


def test_a_broken_law_is_counted_and_saved(monkeypatch, tmp_path, capsys):
    def case(rng):
        raise ValueError("raw")

    monkeypatch.setattr("benchmarks.fuzz.tables.case", case)
    saved = tmp_path / "reports"
    monkeypatch.setattr(
        sys, "argv", ["fuzz", "tables", "--cases", "2", "--first", "5", "--save", str(saved)]
    )
    with pytest.raises(SystemExit) as ended:
        fuzz.main()
    assert ended.value.code == 1
    report = json.loads((saved / "tables.json").read_text())
    assert report["failures"] == [[5, "ValueError: raw"], [6, "ValueError: raw"]]
    assert "--first 6 --cases 1" in capsys.readouterr().out
