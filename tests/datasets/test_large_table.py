"""Tables in many files: found, checked before any use, and read in pieces."""

import pickle

import numpy as np
import pyarrow
import pytest
from pyarrow import feather, fs, parquet

import nrs
from nrs.datasets.parts import is_parts
from nrs.datasets.table_file_errors import TableFileError

N = 40


def _rows(start, n=N):
    numbers = np.arange(start, start + n)
    return pyarrow.table(
        {"a": numbers.astype(float), "b": [f"t{k % 3}" for k in numbers], "y": numbers}
    )


@pytest.fixture
def folder(tmp_path):
    for k in range(3):
        parquet.write_table(_rows(k * N), tmp_path / f"part-{k}.parquet", row_group_size=15)
    return tmp_path


def _values(table, **options):
    return [v for chunk in table.chunks(**options) for v in chunk.batch.column("y").to_pylist()]


@pytest.mark.parametrize("kind", ["pattern", "folder", "list", "uri", "filesystem"])
def test_every_way_to_name_the_parts(folder, kind):
    source, options = {
        "pattern": (f"{folder}/part-*.parquet", {}),
        "folder": (folder, {}),
        "list": (sorted(folder.glob("*.parquet")), {}),
        "uri": (f"file://{folder}/*.parquet", {}),
        "filesystem": (
            "*.parquet",
            {"filesystem": fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())},
        ),
    }[kind]
    if kind == "filesystem":
        source = [f"part-{k}.parquet" for k in range(3)]
    table = nrs.Table(source, target="y", **options)
    assert table.n_rows == len(table) == 3 * N
    assert [group.rows for group in table.groups] == [15, 15, 10] * 3
    assert _values(table) == list(range(3 * N))
    assert table.kinds == {"a": "number", "b": "category", "y": "number"}
    assert _values(pickle.loads(pickle.dumps(table))) == list(range(3 * N))


def test_fsspec_filesystems(folder):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/rows/one.parquet", (folder / "part-0.parquet").read_bytes())
    memory.pipe("/rows/two.parquet", (folder / "part-1.parquet").read_bytes())
    try:
        assert nrs.Table("memory://rows/*.parquet", "y").n_rows == 2 * N
        assert _values(nrs.Table("/rows", "y", filesystem=memory)) == list(range(2 * N))
    finally:
        memory.rm("/rows", recursive=True)


def test_arrow_files_are_read_like_parquet(tmp_path):
    feather.write_feather(_rows(0), tmp_path / "one.feather", chunksize=7, compression="zstd")
    table = nrs.Table(tmp_path, "y")
    assert [group.rows for group in table.groups] == [7] * 5 + [5]
    assert _values(table, rows=4) == list(range(N))


def test_chunks_are_small_and_groups_may_be_read_side_by_side(folder):
    table = nrs.Table(folder, "y", columns=["b"])
    assert table.columns == ["b"]
    assert max(chunk.batch.num_rows for chunk in table.chunks(rows=4)) == 4
    mixed = _values(table, groups=table.groups[::3], rows=5, at_once=3)
    assert mixed[:15] == [0, 1, 2, 3, 4, 40, 41, 42, 43, 44, 80, 81, 82, 83, 84]
    for chunk in table.chunks(rows=4):
        first = chunk.batch.column("y")[0].as_py()
        assert first == chunk.part * N + chunk.first


def test_other_columns_of_the_same_files(folder):
    table = nrs.Table(folder, "y")
    assert table.drop(["a"]).columns == ["b"]
    assert table.select(["b"]).head(2).column_names == ["b", "y"]
    with pytest.raises(TableFileError, match="'c'"):
        table.drop(["c"])
    with pytest.raises(TableFileError, match="none is left"):
        table.drop(["a", "b"])


BAD = {
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-30]), "truncated or damaged"),
    "no bytes": (lambda path: path.write_bytes(b""), r"empty \(0 bytes\)"),
    "no rows": (lambda path: parquet.write_table(_rows(0, 0), path), "no rows"),
    "text": (lambda path: path.write_text("a,b,y\n1,2,3\n"), "neither"),
    "column missing": (lambda p: parquet.write_table(_rows(0).drop_columns("a"), p), "lacks"),
    "column more": (
        lambda p: parquet.write_table(_rows(0).append_column("z", _rows(0)["a"]), p),
        "also has",
    ),
    "another type": (
        lambda p: parquet.write_table(_rows(0).set_column(0, "a", _rows(0)["b"]), p),
        "'a' holds a category .* in place of a number",
    ),
    "nested": (
        lambda p: parquet.write_table(_rows(0).set_column(0, "a", pyarrow.array([[1]] * N)), p),
        "flatten",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", BAD)
def test_a_bad_part_is_named_before_anything_is_read(folder, damage):
    spoil, said = BAD[damage]
    spoil(folder / "part-1.parquet")
    with pytest.raises(TableFileError, match=f"part-1.parquet.*{said}"):
        nrs.Table(folder, "y")


def test_an_all_missing_column_of_a_part_fits_any_kind(folder):
    rows = _rows(0).set_column(0, "a", pyarrow.nulls(N))
    parquet.write_table(rows, folder / "part-0.parquet")
    assert nrs.Table(folder, "y").kinds["a"] == "number"


def test_a_part_that_changes_while_it_is_used(folder):
    table = nrs.Table(folder, "y")
    parquet.write_table(_rows(0, 9), folder / "part-2.parquet")
    with pytest.raises(TableFileError, match=r"part-2.parquet must stay.*start again"):
        list(table.chunks())
    (folder / "part-2.parquet").unlink()
    with pytest.raises(TableFileError, match=r"part-2.parquet must stay"):
        list(table.chunks())


def test_names_that_lead_nowhere(folder):
    with pytest.raises(FileNotFoundError, match="none does"):
        nrs.Table(f"{folder}/q*.parquet")
    with pytest.raises(FileNotFoundError, match="does not"):
        nrs.Table(folder / "absent.parquet")
    (folder / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="none"):
        nrs.Table(folder / "empty")
    with pytest.raises(TableFileError, match="'z'"):
        nrs.Table(folder, target="z")
    with pytest.raises(ValueError, match="target must be the name"):
        nrs.Table(folder, target=["y", 3])
    assert is_parts(folder)
    assert not is_parts("-")


def test_the_identity_tells_tables_apart(folder):
    before = nrs.Table(folder, "y").identity()
    assert before == nrs.Table(f"{folder}/*.parquet", "y").identity()
    parquet.write_table(_rows(5, 39), folder / "part-1.parquet")
    assert nrs.Table(folder, "y").identity() != before
