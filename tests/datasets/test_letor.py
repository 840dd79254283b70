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
        ("qid", Rows(X, y, np.array(["shoes for men", "hats"]))),
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
        ("1 qid: 1:3", "query 'qid:'"),
        ("1 qid:a:b 1:3", "query 'qid:a:b'"),
        ("NULL qid:1 1:3", "label 'NULL'"),
        ("1 qid:1 3:null", "'3:null' is not a pair"),
        ("1 qid:1 3:NULLS", "'3:NULLS' is not a pair"),
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


def test_a_value_that_is_null_is_missing(tmp_path):
    path = _write(tmp_path, "1 qid:1 1:NULL 2:0.5\n0 qid:1 2:NULL\n")
    rows = read_letor(path)
    assert np.array_equal(rows.X, [[np.nan, 0.5], [0, np.nan]], equal_nan=True)
    write_letor(path, rows)
    assert np.array_equal(read_letor(path).X, rows.X, equal_nan=True)


NAMES = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.text("abz019-_.e", min_size=1, max_size=9),
    st.sampled_from(["NULL", "inf", "nan", "007", "1e5", "1.5", "GX000-00-0000000", "π"]),
)


def _name(text):
    """A query as it is read: a whole number of 64 bits, or the text."""
    number = float(text) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text) else 0.5
    if abs(number) < 2**53:
        return str(int(number)) if number == int(number) else text
    whole = re.fullmatch(r"[+-]?\d+", text) and -(2**63) <= int(text) < 2**63
    return str(int(text)) if whole else text


@settings(max_examples=100)
@given(names=st.lists(NAMES, min_size=1, max_size=8), block=st.integers(20, 200))
def test_queries_are_numbers_or_texts_however_the_file_is_cut(tmp_path_factory, names, block):
    text = "".join(f"{k % 3} qid:{name} 1:{k}.5 2:NULL\n" for k, name in enumerate(names))
    path = _write(tmp_path_factory.mktemp("letor"), text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "_BLOCK", block)
        rows = read_letor(path)
    assert rows.qid.astype(str).tolist() == [_name(name) for name in names]
    assert rows.X[:, 0].tolist() == [k + 0.5 for k in range(len(names))]
    assert rows.y.tolist() == [k % 3 for k in range(len(names))]
    write_letor(path, rows)
    assert read_letor(path).qid.astype(str).tolist() == rows.qid.astype(str).tolist()


@settings(max_examples=50)
@given(text=lines(), block=st.integers(20, 200))
def test_indices_may_begin_with_0(tmp_path_factory, text, block):
    folder = tmp_path_factory.mktemp("letor")
    ones = _write(folder, text + "\n1 qid:9 1:1\n")
    moved = re.sub(
        r"(\d+):(?=[^\s]*(\s|$))", lambda found: f"{int(found[1]) - 1}:", ones.read_text()
    )
    zeros = _write(folder, moved, "zeros.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "_BLOCK", block)
        expected, found = read_letor(ones, n_features=12), read_letor(zeros, n_features=12)
        told = read_letor(zeros, n_features=12, zero_based=True)
        assert np.array_equal(found.X, expected.X)
        assert np.array_equal(told.X, expected.X)
        assert found.qid.tolist() == expected.qid.tolist()
        with pytest.raises(DatasetFileError, match=r"line \d+: .*has index 0"):
            read_letor(zeros, n_features=12, zero_based=False)


def test_an_index_0_that_comes_late_is_named_or_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(letor, "_BLOCK", 16)
    path = _write(tmp_path, "1 qid:1 1:5\n0 qid:2 1:6\n0 qid:3 0:7\n")
    assert read_letor(path).X.tolist() == [[0, 5], [0, 6], [7, 0]]
    with pytest.raises(DatasetFileError, match=r"line 3: .*index 0.*zero_based=True"):
        list(iter_letor(path, n_features=2, rows=1))
    for late in ("1 qid:1 0:5 2:1\n", "1 qid:1 2:1\n1 qid:1 0:5\n"):
        with pytest.raises(DatasetFileError, match="2 is beyond 2 features"):
            read_letor(_write(tmp_path, late), n_features=2)
    with pytest.raises(DatasetFileError, match="line 2: 'x' is not a pair"):
        read_letor(_write(tmp_path, "1 qid:1 0:5\n1 qid:1 x\n"))
