"""The commands on tables in many files."""

import json
import re
import shutil

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with three parts of a table."""
    folder = tmp_path_factory.mktemp("parts") / "rooms"
    folder.mkdir()
    rng = np.random.default_rng(0)
    n = 600
    size, sold = rng.normal(60, 20, n), rng.random(n) < 0.5
    rows = pyarrow.table(
        {
            "id": [f"flat {k}" for k in range(n)],
            "size": size,
            "sold": sold,
            "joined": np.datetime64("2024-01-01") + np.arange(n).astype("timedelta64[D]"),
            "empty": pyarrow.nulls(n, "string"),
            "dear": pyarrow.array(np.where(size > 60, "yes", "no"), mask=np.arange(n) % 50 == 0),
        }
    )
    for k in range(3):
        parquet.write_table(rows.slice(200 * k, 200), folder / f"{k}.parquet", row_group_size=80)
    return folder


@pytest.fixture(scope="module")
def fitted(folder, run):
    result = run(
        "fit", f"{folder}/*.parquet", "--target", "dear", "--drop", "id", "--preset", "fast",
        "--output", folder.parent / "model",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return folder.parent / "model.safetensors", result.output


def test_fit_prints_what_it_read(fitted, folder):
    path, output = fitted
    assert "588 rows, 4 columns and the target" in output
    assert "left out 12 rows without a value of dear" in output
    assert "2024-01-02 … 2025-08-22" in output
    assert "nothing" in output
    assert "classification, 2 classes: no (" in output
    assert "out-of-bag: accuracy" in output
    page = path.with_suffix(".html").read_text(encoding="utf-8")
    assert "588 rows of" in page
    assert "Mispredicted rows" in page


def test_predict_and_evaluate_read_parts(fitted, folder, run, tmp_path):
    out = tmp_path / "out.parquet"
    result = run("predict", fitted[0], f"{folder}/*.parquet", "-o", out, "-p", "--keep", "id")
    assert result.exit_code == 0, result.output
    table = parquet.read_table(out)
    assert table.num_rows == 600
    assert table["id"].to_pylist() == [f"flat {k}" for k in range(600)]
    evaluated = run("evaluate", fitted[0], folder, "--json")
    assert evaluated.exit_code == 0, evaluated.output
    facts = json.loads(evaluated.output)
    assert (facts["rows"], facts["unlabelled"]) == (588, 12)
    assert facts["accuracy"] > 0.8
    explained = run("explain", fitted[0], folder)
    assert explained.exit_code == 0, explained.output


def test_one_file_may_be_streamed_too(folder, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(
        "fit", folder / "0.parquet", "-t", "size", "--stream", "--preset", "fast", "--no-report",
        "--drop", "id", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    facts = json.loads(result.output)
    assert (facts["rows"], facts["task"]) == (200, "regression")
    assert facts["wrote"] == ["0.safetensors"]


def test_the_model_of_a_pattern_is_named_after_its_folder(folder, run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = ("-t", "dear", "--preset", "fast", "--no-report", "--quiet", "--drop", "id")
    result = run("fit", f"{folder}/*.parquet", *arguments)
    assert result.exit_code == 0, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["rooms.safetensors"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("{folder}/q*.parquet", "-t", "dear"), "none does"),
        (("{folder}", "-t", "deer"), "is it 'dear'?"),
        (("{folder}", "-t", "dear", "--drop", "width"), "'width'"),
        (("{folder}", "-t", "dear", "--categorical", "width"), "'width'"),
        (("{folder}", "-t", "joined"), "holds a date"),
        (("{folder}", "-t", "dear,size", "--task", "regression"), "'dear'"),
        (("{folder}", "-t", "size", "--loss", "aft"), "two columns, their lower and upper"),
        (("{folder}", "-t", "dear", "--preset", "paper"), "a Table needs a forest"),
        (("{folder}", "-t", "dear", "--task", "regression"), "needs a numeric target; 'dear'"),
        (("{folder}", "-t", "size", "--task", "classification"), "fractions"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_a_line(
    folder, run, arguments, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    result = run("fit", *(argument.format(folder=folder) for argument in arguments))
    assert result.exit_code == 2
    assert said in result.output
    assert not list(tmp_path.iterdir())


def test_a_truncated_part_is_named(folder, run, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "1.parquet").write_bytes((folder / "1.parquet").read_bytes()[:-9])
    result = run("fit", tmp_path, "-t", "dear")
    assert result.exit_code == 2
    assert "1.parquet must be a whole Parquet or Arrow file" in result.output


def test_one_bad_part_does_not_lose_the_others(fitted, folder, run, tmp_path):
    shutil.copytree(folder, tmp_path / "rooms")
    (tmp_path / "rooms" / "1.parquet").write_bytes(b"PAR1 and then nothing")
    rows = parquet.read_table(tmp_path / "rooms" / "2.parquet").drop_columns(["size"])
    parquet.write_table(rows, tmp_path / "rooms" / "2b.parquet")
    out = tmp_path / "out.csv"
    result = run("predict", fitted[0], tmp_path / "rooms", "-o", out)
    assert result.exit_code == 3, result.output
    assert "400 predictions" in result.output
    assert re.search(r"skipped: .*1\.parquet .* truncated or damaged", result.output)
    assert re.search(r"skipped: .*2b\.parquet must have the column 'size'", result.output)
    assert len(out.read_text().splitlines()) == 401
    whole = run("predict", fitted[0], tmp_path / "rooms").stdout.splitlines()
    assert whole == out.read_text().splitlines()
    result = run("evaluate", fitted[0], f"{tmp_path}/rooms/*.parquet")
    assert result.exit_code == 3
    assert "392 rows" in result.output
    # Nothing is fitted to a table of which a part is missing, and nothing written.
    before = sorted(tmp_path.iterdir())
    result = run("fit", tmp_path / "rooms", "-t", "dear", "-o", tmp_path / "model")
    assert result.exit_code == 2
    assert "1.parquet" in result.output
    assert sorted(tmp_path.iterdir()) == before
    for name in ("0.parquet", "2.parquet"):
        (tmp_path / "rooms" / name).unlink()
    assert run("predict", fitted[0], tmp_path / "rooms", "-o", tmp_path / "no.csv").exit_code == 2
    assert not (tmp_path / "no.csv").exists()


def test_whole_files_are_held_out(folder, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit = ("fit", folder, "-t", "dear", "--drop", "id", "--preset", "fast", "--no-report")
    result = run(*fit, "-o", "model", "--holdout", "0.3", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["rows"], facts["scored_on"], facts["holdout"]) == (392, "held-out rows", 0.3)
    # The same scores by hand, on the file that was not read.
    found = [
        json.loads(run("evaluate", "model.safetensors", path, "--json").stdout)
        for path in sorted(folder.iterdir())
    ]
    assert [one["rows"] for one in found] == [196, 196, 196]
    right = [np.isclose(one["log_loss"], facts["scores"]["log_loss"]) for one in found]
    assert sum(right) == 1
    again = json.loads(run(*fit, "-o", "again", "--holdout", "0.3", "--json").stdout)
    assert again["scores"] == facts["scores"]
    for option in ("--groups", "--time"):
        result = run(*fit, "-o", "no", "--holdout", 0.3, option, "joined")
        assert result.exit_code == 2
        assert "--holdout must stand without groups and time" in result.output


def test_the_page_shows_rows_of_files_that_were_held_out(folder, run, tmp_path):
    out = tmp_path / "model"
    result = run(
        "fit", folder, "-t", "size", "--drop", "id", "--preset", "fast", "--holdout", 0.5,
        "-o", out, "--task", "regression",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    page = out.with_suffix(".html").read_text(encoding="utf-8")
    assert "held-out rows" in page
    assert "Mispredicted rows" in page
