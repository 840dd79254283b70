"""LETOR text: as scikit-learn reads it, in whole queries and bounded memory; bad lines named."""

import gzip
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from nrs.datasets import DatasetFileError, Rows, iter_letor, read_letor, write_letor
from nrs.datasets.readers import letor
from nrs.datasets.readers.letor_text import parse_block

NUMBERS = st.one_of(
    st.integers(-99999, 99999).map(str),
    st.floats(-1e6, 1e6, width=32).map(lambda v: f"{v:.6f}"),
    st.floats(-1e30, 1e30, allow_nan=False).map(repr),
    st.sampled_from(["0", "-0", "+3", ".5", "7.", "1e3", "-2.5E-07", "0.000000", "12345678.25",
                     "1234567890123456789", "0.12345678901234567890", "1e-300", "00012.50"]),
)  # fmt: skip


@st.composite
def lines(draw):
    """Text with sparse and dense lines, comments, blanks, tabs and blank lines."""
    text = []
    for query in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(1, 3))):
            indices = sorted(draw(st.sets(st.integers(1, 12), max_size=6)))
            gap = draw(st.sampled_from([" ", "  ", "\t"]))
            pairs = gap.join(f"{index}:{draw(NUMBERS)}" for index in indices)
            end = draw(st.sampled_from(["", " ", " # docid = G1:2 inc = 0.1", "#x", "\r"]))
            text.append(f"{draw(st.integers(0, 4))} qid:{100 + query}{gap}{pairs}{end}")
            if draw(st.integers(0, 9)) == 0:
                text.append(draw(st.sampled_from(["", "   ", "# a line of comment"])))
    return "\n".join(text) + draw(st.sampled_from(["", "\n"]))


def _write(folder, text, name="file.txt"):
    path = folder / name
    path.write_bytes(text.encode())
    return path


@settings(max_examples=150)
@given(text=lines())
def test_reads_what_scikit_learn_reads(tmp_path_factory, text):
    path = _write(tmp_path_factory.mktemp("letor"), text)
    rows = read_letor(path, n_features=12)
    X, y, qid = load_svmlight_file(
        str(path), n_features=12, dtype=np.float32, zero_based=False, query_id=True
    )
    assert rows.y.tolist() == y.tolist()
    assert rows.qid.tolist() == qid.tolist()
    # Both go from text to the nearest double to float32; an exponent may round once more.
    assert np.allclose(rows.X, X.toarray(), rtol=1e-7, atol=0)


@settings(max_examples=20)
@given(text=lines(), block=st.integers(20, 200), part=st.integers(1, 5))
def test_parts_hold_whole_queries_however_the_file_is_cut(tmp_path_factory, text, block, part):
    path = _write(tmp_path_factory.mktemp("letor"), text)
    whole = read_letor(path, n_features=12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "_BLOCK", block)
        parts = list(iter_letor(path, n_features=12, rows=part))
    assert np.array_equal(np.concatenate([p.X for p in parts]), whole.X)
    assert np.concatenate([p.y for p in parts]).tolist() == whole.y.tolist()
    queries = [set(p.qid.tolist()) for p in parts]
    assert sum(map(len, queries)) == len(set.union(*queries))


@pytest.mark.parametrize("zeros", [False, True])
def test_what_is_written_is_read_back(tmp_path, zeros):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(50, 7)).astype(np.float32) * 10.0 ** generator.integers(-8, 9, 7)
    X[generator.random(X.shape) < 0.4] = 0
    X = X.astype(np.float32)
    rows = Rows(X, generator.integers(0, 5, 50), np.repeat(np.arange(10), 5))
    path = tmp_path / "out.txt"
    comments = [f"row {k}\nof 50" for k in range(50)]
    write_letor(path, rows, zeros=zeros, comments=comments)
    found = read_letor(path, n_features=7)
    assert np.array_equal(found.X, rows.X)
    assert np.array_equal(found.y, rows.y)
    assert np.array_equal(found.qid, rows.qid)
    assert path.read_text().count("\n") == 50
    write_letor(path, iter_letor(path, n_features=7, rows=10))
    assert np.array_equal(read_letor(path, n_features=7).X, rows.X)


def test_writing_needs_queries_and_leaves_the_old_file(tmp_path):
    path = _write(tmp_path, "1 qid:1 1:1\n")
    for bad in (Rows(np.ones((2, 1)), np.ones(2)), Rows(np.ones((2, 1)), np.ones(2), np.ones(3))):
        with pytest.raises(ValueError, match="X, y and qid must have as many rows"):
            write_letor(path, bad)
    X, y, qid = np.ones((2, 1)), np.array([1, 0]), np.array([7, 7])
    for name, wrong in (
        ("qid", Rows(X, y, np.array(["shoes", "hats"]))),
        ("qid", Rows(X, y, np.array([1.0, 1.5]))),
        ("y", Rows(X, np.array(["good", "bad"]), qid)),
    ):
        with pytest.raises(ValueError, match=f"{name} must hold .*(shoes|1.5|good)"):
            write_letor(path, wrong)
    with pytest.raises(ValueError, match="comments must have one entry a row"):
        write_letor(path, Rows(X, y, qid), comments=["only one"])
    assert path.read_text() == "1 qid:1 1:1\n"
    write_letor(path, Rows(X, y > 0, qid.astype(float)))
    assert path.read_text() == "1 qid:7 1:1\n0 qid:7 1:1\n"


GOOD = "2 qid:7 1:0.5 2:1 # fine\n\n0 qid:7 2:3\n"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("1 1:3", "no query"),
        ("1", "no query"),
        ("x qid:1 1:3", "label 'x'"),
        ("1 qid:a 1:3", "query 'qid:a'"),
        ("1 qid:1.5 1:3", "query 'qid:1.5'"),
        ("1 qid:inf 1:3", "query 'qid:inf'"),
        ("1 qid:12345678901234567890 1:3", "query 'qid:12345678901234567890'"),
        ("1 qid:1 1:3 4", "'4' is not a pair"),
        ("1 qid:1 a:3", "'a:3' is not a pair"),
        ("1 qid:1 3:", "'3:' is not a pair"),
        ("1 qid:1 :3", "':3' is not a pair"),
        ("1 qid:1 3:4:5", "'3:4:5' is not a pair"),
        ("1 qid:1 3:4x", "'3:4x' is not a pair"),
        ("1 qid:1 3:1.2.3", "'3:1.2.3' is not a pair"),
        ("1 qid:1 3:1-2", "'3:1-2' is not a pair"),
        ("1 qid:1 3:1e", "'3:1e' is not a pair"),
        ("1 qid:1 3:1e2.5", "'3:1e2.5' is not a pair"),
        ("1 qid:1 3:1_0", "'3:1_0' is not a pair"),
        ("1 qid:1 3:-", "'3:-' is not a pair"),
        ("1 qid:1 -3:1", "'-3:1' is not a pair"),
        ("1 qid:1 0:1", "index 0"),
        ("1 qid:1 1234567890:1", "is not a pair"),
        ("1 qid:1 9:1", "index 9 is beyond 4 features"),
        ("1.5.5 qid:1 1:1", "label '1.5.5'"),
    ],
)
@pytest.mark.parametrize("block", [16, 1 << 17])
def test_a_malformed_line_is_named(tmp_path, monkeypatch, line, what, block):
    monkeypatch.setattr(letor, "_BLOCK", block)
    path = _write(tmp_path, GOOD + line + "\n" + GOOD)
    with pytest.raises(DatasetFileError, match=f"line 4: .*{re.escape(what)}"):
        read_letor(path, n_features=4)


def test_empty_files_and_compressed_ones(tmp_path):
    with pytest.raises(DatasetFileError, match="no rows"):
        read_letor(_write(tmp_path, "# nothing\n\n"))
    assert list(iter_letor(_write(tmp_path, ""))) == []
    packed = tmp_path / "file.gz"
    packed.write_bytes(gzip.compress(GOOD.encode()))
    assert read_letor(packed).X.tolist() == [[0.5, 1.0], [0.0, 3.0]]


def test_the_width_grows_with_the_file(tmp_path):
    path = _write(tmp_path, "1 qid:1 1:1\n0 qid:2 5:2\n")
    assert read_letor(path).X.shape == (2, 5)


def test_queries_of_64_bits_and_huge_labels_keep_their_digits(tmp_path):
    queries = [2**53, 2**53 + 1, -(2**63), 2**63 - 1]
    text = "".join(f"1e30 qid:{query} 1:1\n" for query in queries)
    rows = read_letor(_write(tmp_path, text))
    assert rows.qid.tolist() == queries
    assert rows.y.tolist() == [1e30] * 4


def test_infinities_are_read_as_they_are():
    assert parse_block(b"1 qid:1 1:inf 2:-nan 3:1e999\n").values[1:].tolist()[0] == np.inf


def test_memory_does_not_grow_with_the_file(tmp_path):
    line = " ".join(["1 qid:{}", *(f"{k}:{k / 7:.6f}" for k in range(1, 137))]) + " # doc\n"

    def peak(rows):
        path = tmp_path / f"{rows}.txt"
        path.write_text("".join(line.format(row // 20) for row in range(rows)))
        tracemalloc.start()
        n = sum(len(part.y) for part in iter_letor(path, n_features=136, rows=256))
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert n == rows
        return memory

    small, large = peak(1000), peak(4000)
    assert large < 1.2 * small
    assert large < 20e6
