"""From result files to entries: aggregation, statuses, remarks."""

import json

import pytest

from nrs.paper import Results, entries, find_table, tables
from nrs.paper.collect import against_paper, collect
from nrs.paper.table import Cell, Subject

KEYS = {
    "table", "row", "column", "metric", "reported", "reported_std", "measured", "measured_std",
    "n", "status", "note", "in_paper", "comparable",
}  # fmt: skip


def _write(folder, subject, values, **fields):
    for seed, value in enumerate(values):
        record = {"status": "ok", "error": None, "metrics": {"accuracy": value}} | fields
        Results(folder).write(Cell(subject, seed), record)


@pytest.mark.parametrize("name", sorted(tables()))
def test_one_entry_a_printed_cell(tmp_path, name):
    shown = entries(name, tmp_path)
    table = find_table(name)
    assert len(shown) == sum(not printed.extra for printed in table.printed)
    places = [(entry["row"], entry["column"]) for entry in shown]
    assert len(set(places)) == len(places)
    for entry in shown:
        assert entry.keys() == KEYS
        assert (entry["measured"], entry["n"], entry["status"]) == (None, 0, "not run")
        # A representation size is printed as text, such as 2K.
        kinds = (float, str) if entry["column"] == "dim" else float
        assert entry["reported"] is None or isinstance(entry["reported"], kinds)
    json.dumps(shown, allow_nan=False)


def test_trials_are_aggregated(tmp_path):
    _write(tmp_path, Subject("accuracy", "letter", "NRS"), [97.0, 98.0, 99.0])
    letter = next(e for e in entries("accuracy", tmp_path) if e["row"] == "letter")
    assert (letter["measured"], letter["measured_std"], letter["n"]) == (98.0, 1.0, 3)
    assert (letter["reported"], letter["status"]) == (97.85, "ok")


def test_folds_take_the_place_of_trials(tmp_path):
    folds = {"accuracy": [60.0, 62.0, 64.0]}
    _write(tmp_path, Subject("accuracy", "yeast", "NRS"), [62.0], parts=folds)
    yeast = next(e for e in entries("accuracy", tmp_path) if e["row"] == "yeast")
    assert (yeast["measured"], yeast["measured_std"], yeast["n"]) == (62.0, 2.0, 3)


def test_trouble_is_told(tmp_path):
    subject = Subject("accuracy", "letter", "NRS")
    _write(tmp_path, subject, [97.0])
    record = {"status": "timeout", "error": "took longer than 5 s"}
    Results(tmp_path).write(Cell(subject, 1), record)
    Results(tmp_path).write(Cell(Subject("accuracy", "letter", "RF"), 0), record)
    found = {e["column"]: e for e in entries("accuracy", tmp_path) if e["row"] == "letter"}
    assert found["NRS"]["status"] == "ok"
    assert found["NRS"]["note"] == "1 trial; 1 of 2 timeout: took longer than 5 s"
    assert (found["RF"]["status"], found["RF"]["measured"]) == ("timeout", None)


def test_other_readings_appear_once_measured(tmp_path):
    assert not [e for e in entries("accuracy", tmp_path) if e["row"] == "glass-merged"]
    _write(tmp_path, Subject("accuracy", "glass-merged", "NRS"), [88.0])
    (merged,) = [e for e in entries("accuracy", tmp_path) if e["row"] == "glass-merged"]
    assert (merged["reported"], merged["in_paper"], merged["comparable"]) == (88.62, False, True)


def test_a_figure_reads_the_cells_of_the_table(tmp_path):
    _write(tmp_path, Subject("accuracy", "letter", "NRS"), [97.0])
    for name, row in (("n_mul", "100"), ("mlp_variants", "letter")):
        shown = [e for e in entries(name, tmp_path) if e["measured"] is not None]
        assert [(e["row"], e["reported"]) for e in shown] == [(row, 97.85)]


def test_pages_have_statistics_and_remarks(tmp_path):
    methods = ("NRS", "RF", "GBDT")
    for method, better in zip(methods, (3.0, 0.0, 1.0), strict=True):
        for dataset in ("letter", "satimage", "dna"):
            values = [90 + better + wobble for wobble in (0.0, 0.1, -0.1)]
            _write(tmp_path, Subject("accuracy", dataset, method), values)
    remarks = {"accuracy": {"verdict": "It holds.", "notes": {"dna": "small"}}}
    (tmp_path / "paper" / "remarks.json").write_text(json.dumps(remarks))
    (page,) = collect(tmp_path, ["accuracy"])
    assert page["verdict"] == "It holds."
    assert "small" in next(c for c in page["cells"] if c["row"] == "dna")["note"]
    found = page["statistics"]
    assert found["win_tie_lose"] == {"RF": [3, 0, 0], "GBDT": [3, 0, 0]}
    assert found["average_ranks"] == {"NRS": 1.0, "RF": 3.0, "GBDT": 2.0}
    assert found["reported"]["win_tie_lose"]["MLP"] == [24, 9, 1]
    json.dumps(page, allow_nan=False)


def test_broken_remarks_are_told(tmp_path):
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "remarks.json").write_text("{")
    with pytest.raises(ValueError, match=r"remarks\.json must be a JSON file"):
        entries("accuracy", tmp_path)


def test_fewer_trials_than_the_table_has_are_said(tmp_path):
    _write(tmp_path, Subject("accuracy", "letter", "NRS"), [97.0, 98.0])
    _write(tmp_path, Subject("accuracy", "letter", "RF"), [96.0] * 5)
    _write(tmp_path, Subject("accuracy", "letter", "MLP"), [97.0])
    found = {e["column"]: e["note"] for e in entries("accuracy", tmp_path) if e["row"] == "letter"}
    assert (found["NRS"], found["RF"], found["MLP"]) == ("2 trials", None, "1 trial")


def test_what_rounding_hides_is_no_difference(tmp_path):
    # Printed: sonar, GBDT 85.71 ± 0.00.
    for seed in range(5):
        record = {"status": "ok", "error": None, "metrics": {"accuracy": 100 * 54 / 63}}
        Results(tmp_path).write(Cell(Subject("accuracy", "sonar", "GBDT"), seed), record)
    cells = entries("accuracy", tmp_path)
    table = find_table("accuracy")
    (cell,) = [c for c in cells if (c["row"], c["column"]) == ("sonar", "GBDT")]
    assert against_paper(table, cell) == "level"
    (page,) = collect(tmp_path, ["accuracy"])
    (shown,) = [c for c in page["cells"] if (c["row"], c["column"]) == ("sonar", "GBDT")]
    assert 0 < shown["tolerance"] < 0.01
