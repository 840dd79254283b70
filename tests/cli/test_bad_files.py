"""Bad files: at most three lines that say what to do, exit code 2, nothing written."""

import io
import zipfile

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from nrs.training import write_model


def _zipped(members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


GOOD = "months,plan,left\n" + "".join(
    f"{k},{'basic' if k % 3 else 'plus'},{'yes' if k % 2 else 'no'}\n" for k in range(60)
)
BAD = {
    "empty": (b"", "is empty"),
    "header only": (b"months,plan,left\n", "has no rows, only a header"),
    "ragged": (GOOD.encode() + b"1,basic,no,more\n", "as many cells in every row"),
    "binary": (bytes(range(256)), "binary file"),
    "array": (b'[{"months": 1}, 2]', "must be an array of objects"),
    "two tables": (_zipped({"a.csv": GOOD, "b.csv": GOOD}), "must hold one table"),
    "damaged zip": (_zipped({"a.csv": GOOD})[:-40], "cannot be unpacked"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory, run):
    folder = tmp_path_factory.mktemp("model")
    (folder / "good.csv").write_text(GOOD)
    result = run(
        "fit", folder / "good.csv", "-t", "left", "--preset", "fast", "--time-limit", 1,
        "--no-report", "-q", "-o", folder / "good",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return folder / "good.safetensors"


def _refused(result, message, folder, before):
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert len(result.output.strip().splitlines()) <= 3, result.output
    assert "Traceback" not in result.output
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("name", BAD)
def test_fit_predict_and_evaluate_refuse(name, model, run, tmp_path, monkeypatch):
    content, message = BAD[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    _refused(run("fit", path, "-t", "left"), message, tmp_path, before)
    _refused(run("predict", model, path, "-o", tmp_path / "out.csv"), message, tmp_path, before)
    _refused(run("evaluate", model, path), message, tmp_path, before)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("months,left\n1,no\n", "must have the column 'plan'"),
        ("monhts,plan,left\n1,basic,no\n", "is it 'monhts'?"),
        ("months,plan,left\nthree,basic,no\n", "must hold numbers in column 'months'"),
        ('{"months": "three", "plan": "basic"}\n', "must hold a number in column 'months'"),
    ],
)
def test_columns_that_changed_since_the_fit(content, message, model, run, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text(content)
    before = sorted(tmp_path.iterdir())
    _refused(run("predict", model, path, "-o", tmp_path / "out.csv"), message, tmp_path, before)


def test_a_type_that_changed_in_a_later_chunk_leaves_nothing(model, run, tmp_path):
    from nrs.datasets import table_files

    rows = "7,basic,no\n" * (table_files.CHUNK_BYTES // 10)
    path = tmp_path / "long.csv"
    path.write_text("months,plan,left\n" + rows + "seven,basic,no\n")
    before = sorted(tmp_path.iterdir())
    result = run("predict", model, path, "-o", tmp_path / "out.csv")
    _refused(result, "must hold numbers in column 'months'", tmp_path, before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-t", "lfet"), "is it 'left'?"),
        (("-t", "left", "--drop", "nothing"), "must have the column 'nothing'"),
        (("-t", "left", "--task", "regression"), "Use --task classification"),
        (("-t", "left", "--task", "ranking"), "--task must be"),
        (("-t", "left", "--preset", "huge"), "preset must be"),
        (("-t", "left", "--output", "nowhere/model"), "Folder not found: nowhere; create it"),
        (("-t", "left", "--drop", "months", "--drop", "plan"), "has no columns left"),
    ],
)
def test_fit_refuses_what_cannot_be(arguments, message, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text(GOOD)
    before = sorted(tmp_path.iterdir())
    _refused(run("fit", "good.csv", *arguments), message, tmp_path, before)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["yes", None, None], (), "must have at least two rows with a value of 'left'"),
        (["yes", "yes", "yes"], (), "needs at least two distinct values; all rows have 'yes'"),
        (["yes", "no", "yes"], ("--task", "ranking"), "--task must be"),
    ],
)
def test_rows_in_memory_and_streamed_rows_are_refused_alike(
    labels, options, message, run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = pyarrow.table({"months": [1, 2, 3], "left": labels})
    parquet.write_table(rows, tmp_path / "rows.parquet")
    before = sorted(tmp_path.iterdir())
    fit = ("fit", "rows.parquet", "-t", "left", *options)
    in_memory, streamed = run(*fit), run(*fit, "--stream")
    _refused(in_memory, message, tmp_path, before)
    _refused(streamed, message, tmp_path, before)
    assert in_memory.output == streamed.output


@pytest.mark.parametrize("command", ["predict", "evaluate", "info", "explain", "export"])
def test_a_model_file_that_is_not_one(command, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(GOOD)
    (tmp_path / "model.safetensors").write_bytes(b"not a model at all")
    rows = ["rows.csv"] if command in ("predict", "evaluate") else []
    before = sorted(tmp_path.iterdir())
    result = run(command, "model.safetensors", *rows)
    _refused(result, "is not a model file that nrs saved", tmp_path, before)
    result = run(command, "nowhere.safetensors", *rows)
    _refused(result, "File not found: nowhere.safetensors", tmp_path, before)


def test_a_damaged_model_and_an_unknown_output(model, run, tmp_path):
    (tmp_path / "rows.csv").write_text(GOOD)
    content = bytearray(model.read_bytes())
    content[-5] ^= 255
    (tmp_path / "damaged.safetensors").write_bytes(content)
    before = sorted(tmp_path.iterdir())
    result = run("predict", tmp_path / "damaged.safetensors", tmp_path / "rows.csv")
    _refused(result, "does not match its checksum", tmp_path, before)
    result = run("predict", model, tmp_path / "rows.csv", "-o", tmp_path / "out.xlsx")
    _refused(result, "must end with .csv", tmp_path, before)
    result = run("predict", model, tmp_path / "rows.csv", "--interval", "0.9")
    _refused(result, "needs a regressor", tmp_path, before)


def test_another_kind_of_model_is_named(run, tmp_path):
    (tmp_path / "rows.csv").write_text(GOOD)
    path = tmp_path / "other.safetensors"
    write_model(path, {}, {}, kind="checkpoint")
    before = sorted(tmp_path.iterdir())
    result = run("predict", path, tmp_path / "rows.csv")
    _refused(result, "is 'checkpoint'", tmp_path, before)


def test_a_forged_model_is_refused_and_cannot_steer_the_terminal(run, tmp_path):
    path = tmp_path / "forged.safetensors"
    write_model(path, {}, {"encoder": {}}, kind="table")
    _refused(run("info", path), "Cannot load", tmp_path, [path])
    write_model(path, {}, {}, kind="image", made={"seed": "\x1b[2J\ud800"})
    shown = run("info", path).output
    assert r"seed        \x1b[2J" in shown
    assert "\x1b" not in shown


def test_a_wrong_encoding_can_be_told(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = "".join(f"{rng.normal():.3f},{'é' if k % 2 else 'a'}\n" for k in range(60))
    path = tmp_path / "latin.csv"
    path.write_bytes(("x,name\n" + rows).encode("latin-1"))
    result = run(
        "fit", path, "-t", "name", "--encoding", "latin-1", "--preset", "fast", "--time-limit", 1,
        "--no-report", "--json", "-o", tmp_path / "m",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert '"é"' in result.output


def test_a_column_may_be_dropped_twice(run, tmp_path):
    path = tmp_path / "good.csv"
    path.write_text(GOOD)
    result = run(
        "fit", path, "-t", "left", "--drop", "left", "--drop", "plan", "--drop", "plan", "--json",
        "--preset", "fast", "--time-limit", 1, "--no-report", "-o", tmp_path / "good",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert '"name": "months"' in result.output
    assert '"name": "plan"' not in result.output


def test_explain_reads_the_encoding_that_it_asks_for(model, run, tmp_path):
    path, page = tmp_path / "rows.csv", tmp_path / "page.html"
    path.write_bytes(GOOD.replace("plus", "plüs").encode("latin-1"))
    result = run("explain", model, path, "--output", page, "--encoding", "utf-8")
    assert result.exit_code == 2
    assert "--encoding latin-1" in result.output
    assert not page.exists()
    result = run("explain", model, path, "--output", page, "--encoding", "latin-1")
    assert result.exit_code == 0, result.output
    assert page.exists()
