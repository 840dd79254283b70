import bz2
import gzip
import lzma
import sys

import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from nrs.datasets import DatasetFileError
from nrs.datasets.readers import (
    read,
    read_arff,
    read_cifar,
    read_hdf5,
    read_letor,
    read_libsvm,
    read_matlab,
    read_table,
)


@pytest.fixture
def write(tmp_path):
    def write(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@settings(max_examples=25)
@given(rows=st.integers(1, 6), width=st.integers(1, 5), seed=st.integers(0, 99))
def test_libsvm_and_letor_give_back_what_was_written(tmp_path_factory, rows, width, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 3, (rows, width)).astype(float)
    y, qid = rng.integers(-1, 2, rows), np.sort(rng.integers(1, 4, rows))
    path = tmp_path_factory.mktemp("text") / "file"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    found = read_libsvm(path, n_features=width + 2)
    np.testing.assert_array_equal(found.X, np.pad(X, ((0, 0), (0, 2))))
    np.testing.assert_array_equal(found.y, y)
    assert found.y.dtype == np.int64
    dump_svmlight_file(X, y, str(path), zero_based=False, query_id=qid)
    found = read_letor(path, n_features=width)
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.qid, qid)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_text_is_unpacked_on_the_way(write, pack):
    path = write(pack(b"1.5 1:2\n-2 3:1\n"))
    rows = read_libsvm(path)
    assert rows.X.tolist() == [[2, 0, 0], [0, 0, 1]]
    assert rows.y.tolist() == [1.5, -2]


def test_multilabel_text_gives_a_row_of_flags(write):
    rows = read_libsvm(write("0,2 1:1\n 1:2\n1 1:3\n"), n_labels=3)
    assert rows.y.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    with pytest.raises(DatasetFileError, match="label 5 of 3"):
        read_libsvm(write("5 1:1\n"), n_labels=3)


@pytest.mark.parametrize("text", ["a b c\n", "1 1:x\n", "1 9:1\n", "1 0:1\n"])
def test_text_that_is_not_libsvm_is_refused(write, text):
    with pytest.raises(DatasetFileError, match="must be a LIBSVM file"):
        read_libsvm(write(text), n_features=3)


def test_letor_needs_queries(write):
    with pytest.raises(DatasetFileError, match="LETOR"):
        read_letor(write("1 qid:1 1:2\n0 1:3\n"))


def test_tables_with_blanks_a_header_and_several_targets(write):
    rows = read_table(write("  1   2.5  x\n\n 3  ?  y \n"), delimiter=None)
    np.testing.assert_array_equal(rows.X, [[1, 2.5], [3, np.nan]])
    assert rows.y.tolist() == ["x", "y"]
    text = '"a";"b";"c"\n1;2;3\n4;5;6\n'
    rows = read_table(write(text), delimiter=";", header=True, label=(0, 2))
    assert rows.X.tolist() == [[2], [5]]
    assert rows.y.tolist() == [[1, 3], [4, 6]]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("1,2\n1,2,3\n", "row 1 has 3 columns, the first has 2"),
        ("1,2\nx,2\n", "row 1 column 0 is 'x', not a number"),
        ("", "no rows"),
        (b"\xff\xfe\x00", "utf-8"),
    ],
)
def test_a_table_with_a_flaw_is_refused(write, text, what):
    with pytest.raises(DatasetFileError, match=what):
        read_table(write(text))


def test_a_column_that_is_not_there_is_told(write):
    with pytest.raises(DatasetFileError, match="no column 5 but 2"):
        read_table(write("1,2\n"), label=5)


ARFF = """% a comment
@RELATION 'some name'
@ATTRIBUTE 'width of it' real [0.0, 2.0]
@attribute colour {red, 'light blue'}
@attribute n INTEGER
@attribute Class {good, bad}
@inputs colour, n
@data
% another
1.5, 'light blue', 3, bad
?, red, <null>, good
"""


def test_arff_of_weka_and_keel(write):
    rows = read_arff(write(ARFF.replace("<null>", "?")))
    np.testing.assert_array_equal(rows.X, [[1.5, 1, 3], [np.nan, 0, np.nan]])
    assert rows.y.tolist() == ["bad", "good"]
    rows = read_arff(write(ARFF.replace("<null>", "4")), label="n")
    assert rows.y.tolist() == [3, 4]
    assert rows.X[:, 2].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("@data", "@dta", "no line @data"),
        ("INTEGER", "string", "'n' is 'string'"),
        ("1.5, ", "", "4 attributes have 3 values"),
        ("red, <", "green, <", "'green' is no value"),
        ("1.5, ", "{0 1.5}, ", "sparse"),
        ("colour {", "{", "names no attribute|attributes have"),
    ],
)
def test_arff_with_a_flaw_is_refused(write, old, new, what):
    with pytest.raises(DatasetFileError, match=what):
        read_arff(write(ARFF.replace(old, new)))


def test_matlab_images_become_rows_of_channels(tmp_path):
    images = np.arange(2 * 2 * 3 * 4, dtype=np.uint8).reshape(2, 2, 3, 4)
    scipy.io.savemat(tmp_path / "file.mat", {"X": images, "y": np.arange(4)[:, None]})
    rows = read_matlab(tmp_path / "file.mat", x="X", y="y")
    assert rows.X.shape == (4, 12)
    np.testing.assert_array_equal(rows.X[1].reshape(3, 2, 2)[2], images[:, :, 2, 1])
    assert rows.y.tolist() == [0, 1, 2, 3]
    with pytest.raises(DatasetFileError, match="lacks"):
        read_matlab(tmp_path / "file.mat", x="Z")
    with pytest.raises(DatasetFileError, match="more than 10 bytes"):
        read_matlab(tmp_path / "file.mat", x="X", y="y", max_bytes=10)


def test_a_file_that_is_not_matlab_is_refused(write):
    for content in (b"", b"nothing of the kind", bytes(200)):
        with pytest.raises(DatasetFileError, match="must be a MATLAB file"):
            read_matlab(write(content, "file.mat"), x="X")


def test_cifar_reads_the_fine_label(write):
    record = bytes([1, 42]) + bytes(range(256)) * 12
    rows = read_cifar(write(record * 3), n_labels=2)
    assert rows.y.tolist() == [42] * 3
    assert rows.X[0, :3].tolist() == [0, 1, 2]
    with pytest.raises(DatasetFileError, match="no whole number"):
        read_cifar(write(record[:-1]), n_labels=2)


def test_hdf5_names_what_it_needs(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ModuleNotFoundError, match=r"h5py, which is not installed; .*\[points\]"):
        read_hdf5(write(b""))


def test_hdf5_arrays(tmp_path, write):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "file.h5", "w") as file:
        file["data"] = np.ones((2, 5, 3), np.float32)
        file["label"] = np.array([[3], [4]], np.uint8)
    rows = read_hdf5(tmp_path / "file.h5")
    assert rows.X.shape == (2, 5, 3)
    assert rows.y.tolist() == [3, 4]
    with pytest.raises(DatasetFileError, match="lacks"):
        read_hdf5(tmp_path / "file.h5", x="points")
    with pytest.raises(DatasetFileError, match="more than"):
        read_hdf5(tmp_path / "file.h5", max_bytes=10)
    with pytest.raises(DatasetFileError, match="HDF5"):
        read_hdf5(write(b"nothing"))


def test_an_unknown_format_is_told(write):
    with pytest.raises(ValueError, match="format='xml'"):
        read(write(b""), "xml", max_bytes=1)
