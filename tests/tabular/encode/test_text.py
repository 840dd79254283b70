"""Free text."""

import json
from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

import nrs
from nrs import NRSClassifier, NRSRanker, NRSRegressor
from nrs.tabular.encode import text
from nrs.tabular.encode.column_encoder import ColumnWarning
from nrs.tabular.encode.columns import read_cells
from nrs.tabular.encode.encoder import TableEncoder, TableStatistics
from nrs.tabular.encode.table import read_table
from nrs.tabular.encode.text import TextEncoder, TextStatistics, Tokens, code_table, is_text, learn
from tests.tabular.table_files import write_parts

FAST = {"preset": "fast", "epochs": 30, "random_state": 0, "verbose": 0}
THINGS = ["library", "game", "editor", "compiler", "server"]
OTHERS = ["small", "free", "quick", "modular", "portable", "graphical", "old", "simple", "secure"]


def draw_texts(n, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, len(THINGS), n)
    texts = [
        f"A {' and '.join(rng.choice(OTHERS, rng.integers(1, 4)))} {THINGS[one]} for "
        f"{rng.choice(['Linux', 'music', 'people', 'Übung'])}, version {rng.integers(1000)}"
        for one in label
    ]
    return texts, label


def draw_frame(n=240, seed=0):
    texts, label = draw_texts(n, seed)
    rng = np.random.default_rng(seed + 1)
    frame = pd.DataFrame({"size": rng.normal(size=n), "note": texts, "kind": ["a", "b"] * (n // 2)})
    frame.loc[::17, "note"] = None
    return frame, label


def encode(encoder, cells):
    out = np.zeros((len(cells), len(encoder.features)), dtype=np.float32)
    encoder.write(read_cells(cells, "category"), out)
    return out


@pytest.fixture(scope="module")
def encoder():
    return learn(draw_texts(300)[0])


@pytest.fixture(scope="module")
def fitted():
    frame, y = draw_frame()
    return NRSClassifier(**FAST).fit(frame, y), frame, y


# Which columns are text.


@pytest.mark.parametrize(
    "cells",
    [
        [f"customer-{n}" for n in range(300)],
        [f"{n:032x}" for n in range(300)],
        [f"2024-05-{n % 28 + 1:02d} 10:{n // 28:02d}:00 and some" for n in range(300)],
        [f"John{n} Smith" for n in range(300)],
        [f"https://example.org/pages/of/many/words/{n}" for n in range(300)],
        [f"{n} {n + 1} {n + 2} {n + 3} {n + 4} {n + 5} {n + 6}" for n in range(300)],
        [f"a rather long description of sort {n % 60}" for n in range(300)],
        [f"a rather long description of sort {n % 140}" for n in range(300)],
    ],
    ids=["ids", "hashes", "dates", "names", "addresses", "numbers", "few levels", "repeated"],
)
def test_what_is_no_text_stays_as_it_was(cells):
    frame = pd.DataFrame({"c": cells})
    found = TableEncoder().fit(frame)
    assert found.kinds_ == ["category"]
    declared = TableEncoder(categorical_features=["c"]).fit(frame)
    np.testing.assert_array_equal(found.transform(frame), declared.transform(frame))
    assert found.binned_.all()


@pytest.mark.parametrize(
    "texts",
    [draw_texts(200)[0], [f"これは{n}番目の荷物についてのとても長い説明です" for n in range(200)]],
    ids=["English", "Japanese"],
)
def test_what_is_text(texts):
    encoder = TableEncoder().fit(pd.DataFrame({"c": texts}))
    assert encoder.kinds_ == ["text"]
    assert encoder.n_features_out_ > 5
    assert not encoder.binned_.any()


def test_the_user_decides():
    frame, y = draw_frame()
    forbidden = [
        NRSClassifier(**FAST, categorical_features=["note"]).fit(frame, y),
        NRSClassifier(**FAST, text_features=[]).fit(frame, y),
        NRSClassifier(**FAST).fit(frame.astype({"note": "category"}), y),
    ]
    assert {one.encoder_.kinds_[1] for one in forbidden} == {"category"}
    forced = NRSClassifier(**FAST, text_features=["kind"]).fit(frame, y)
    assert forced.encoder_.kinds_ == ["number", "category", "text"]
    with pytest.raises(ValueError, match="column 'note' is in categorical_features and in text_"):
        NRSClassifier(categorical_features=["note"], text_features=[1]).fit(frame, y)
    with pytest.raises(ValueError, match="text_features names 'none'"):
        NRSClassifier(text_features=["none"]).fit(frame, y)


def test_every_library_gives_the_same_features():
    frame, _ = draw_frame()
    expected = TableEncoder().fit_transform(frame)
    rows = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    for table in (
        polars.from_pandas(frame),
        pyarrow.Table.from_pandas(frame),
        frame.astype({"note": "string"}),
        rows,
    ):
        np.testing.assert_array_equal(TableEncoder().fit_transform(table), expected)


# What features are.


ANY_TEXT = st.text(max_size=30) | st.sampled_from(draw_texts(40, seed=5)[0]) | st.none()


@settings(max_examples=60, deadline=None)
@given(cells=st.lists(ANY_TEXT, min_size=1, max_size=8), chunk=st.sampled_from([1, 40, 1 << 18]))
def test_features_depend_on_the_cell_alone(encoder, cells, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "CHUNK", chunk)
        together = encode(encoder, cells)
    assert np.isfinite(together).all()
    for cell, row in zip(cells, together, strict=True):
        np.testing.assert_array_equal(encode(encoder, [cell])[0], row)


def naive_tokens(one, alphabet):
    """Words, pairs and pieces as texts, by Python's own means."""
    spaced = "".join(c.lower()[0] if c in alphabet else " " for c in f" {one} ")
    words = spaced.split()
    pieces = [
        spaced[k : k + size]
        for size in text.PIECE_SIZES
        for k in range(len(spaced) - size + 1)
        if " " not in spaced[k + 1 : k + size - 1]
    ]
    return [*words, *map(" ".join, pairwise(words))], pieces


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text("abÄäXx1 -.\nß漢", max_size=25), min_size=1, max_size=6),
    st.sampled_from(["abx", "1ABXabxÄßä", "a"]),
)
def test_a_hash_stands_for_one_token(texts, alphabet):
    found = Tokens(texts, code_table(alphabet))
    for kind, (row, token) in enumerate(found.kinds):
        names = [naive_tokens(one, alphabet)[kind] for one in texts]
        for place, own in enumerate(names):
            counts = sorted(Counter(token[row == place].tolist()).values())
            assert counts == sorted(Counter(own).values())
        assert len(set(token.tolist())) == len(set(chain(*names)))


def test_words_weigh_what_they_do_in_scikit_learn(encoder):
    texts = sorted(set(draw_texts(300)[0]))
    words = TfidfVectorizer(
        sublinear_tf=True, min_df=2, ngram_range=(1, 2), token_pattern=r"[^\W_]+"
    )
    expected = words.fit_transform(texts)
    tokens = Tokens(texts, code_table(encoder.alphabet))
    ours = text.weigh(tokens, encoder.vocabularies, encoder.rarities)
    ours = ours[:, : len(encoder.vocabularies[0])]
    assert ours.shape == expected.shape
    # Columns come in another order.
    np.testing.assert_allclose(
        (ours @ ours.T).toarray(), (expected @ expected.T).toarray(), atol=1e-5
    )


def test_upper_case_and_punctuation_do_not_count(encoder):
    plain, other = "a small library for linux", "A  small, LIBRARY -- for Linux!?"
    np.testing.assert_array_equal(encode(encoder, [plain]), encode(encoder, [other]))
    assert np.abs(encode(encoder, [plain])).sum() > 0


def test_a_text_counts_up_to_its_bound(encoder):
    long = "a small library " * 1000
    assert len(long) > text.MAX_LENGTH
    expected = encode(encoder, [long[: text.MAX_LENGTH]])
    np.testing.assert_array_equal(encode(encoder, [long + "a server"]), expected)


def test_missing_blank_and_unknown_cells(encoder):
    texts = [*draw_texts(200)[0], "", "--"]
    blank = learn(texts)
    assert blank.features[-1] == " (missing)"
    out = encode(blank, [None, "", " \n", "?!", "Щ", "small", "qqqqqqqq"])
    assert out[:, -1].tolist() == [1, 1, 1, 1, 1, 0, 0]
    assert not out[:5, :-1].any()
    assert out[5, :-1].any()
    assert not out[6].any()
    # Training without such cells has no feature for them.
    assert not encoder.missing
    assert not encode(encoder, [None, "", "qqqqqqqq"]).any()


def test_predictions_warn_of_texts_without_known_words(fitted):
    model, frame, _ = fitted
    strange = frame.assign(note=[f"Жж{chr(0x400 + n)}" for n in range(len(frame))])
    with pytest.warns(ColumnWarning, match="240 in 'note'"):
        model.predict(strange)


# Statistics.


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(0, 240), max_size=3), most=st.sampled_from([100, 100_000]))
def test_parts_merge_to_what_one_pass_counts(cuts, most):
    frame, _ = draw_frame()
    cells = frame["note"].astype(object).where(frame["note"].notna(), None).tolist()
    column = read_cells(cells, "category")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "MAX_COUNTED", most)
        whole, merged = TextStatistics("string").add(column), TextStatistics("string")
        ends = sorted({0, 240, *cuts})
        for first, end in pairwise(ends):
            sent = TextStatistics("string").add(read_cells(cells[first:end], "category"))
            part = TextStatistics("string")
            part.restore(json.loads(json.dumps(sent.state())))
            merged.merge(part)
        assert whole.is_text()
        assert (merged.seen, merged.missing) == (whole.seen, whole.missing)
        assert merged.summary().kind == "text"
        assert merged.encoder("standard", 64, column) == whole.encoder("standard", 64, column)


def test_many_ids_are_still_refused(monkeypatch):
    monkeypatch.setattr(text, "MAX_COUNTED", 100)
    monkeypatch.setattr("nrs.tabular.encode.category.MAX_LEVELS", 1000)
    counted = TextStatistics("string").add(read_cells([f"id-{n}" for n in range(900)], "category"))
    assert not counted.is_text()
    with pytest.raises(ValueError, match="looks like an ID"):
        counted.add(read_cells([f"other-{n}" for n in range(900)], "category"))


def test_a_stream_learns_what_memory_learns(tmp_path):
    frame, label = draw_frame(600)
    rows = write_parts(frame.assign(y=label), tmp_path)
    table = nrs.Table(str(tmp_path), target="y")
    streamed = NRSClassifier(**FAST).fit(table)
    memory = NRSClassifier(**FAST).fit(rows.drop_columns("y"), label)
    assert streamed.encoder_.kinds_ == memory.encoder_.kinds_ == ["number", "text", "category"]
    one, other = (model.encoder_.column_encoder(1) for model in (streamed, memory))
    assert one == other
    assert streamed.oob_score_ > 0.5
    forced = NRSClassifier(**FAST, text_features=["kind"]).fit(table)
    assert forced.encoder_.kinds_ == ["number", "category", "text"]


def test_processes_count_what_one_counts():
    frame, _ = draw_frame()
    kinds = ["number", "string", "string"]
    whole = TableStatistics(frame.columns, kinds)
    whole.add(read_table(frame))
    parts = [TableStatistics(frame.columns, kinds) for _ in range(2)]
    for part, half in zip(parts, (frame[:100], frame[100:]), strict=True):
        part.add(read_table(half))
    merged, other = (
        TableStatistics.from_state(json.loads(json.dumps(part.state()))) for part in parts
    )
    merged.merge(other)
    table = read_table(frame)
    expected = TableEncoder().fit_statistics(whole, table).transform(frame)
    found = TableEncoder().fit_statistics(merged, table)
    assert found.kinds_ == ["number", "text", "category"]
    np.testing.assert_allclose(found.transform(frame), expected, atol=1e-6)


# Models.


def test_text_tells_a_class(fitted):
    model, frame, y = fitted
    assert model.oob_score_ > 0.8
    assert model.feature_importances_.shape == (3,)
    assert model.feature_importances_.argmax() == 1
    names = model.encoder_.feature_names_out_
    assert names[1] == "note (text 1)"
    assert names[model.encoder_.groups_ == 1][-1] == "note (missing)"
    without = NRSClassifier(**FAST).fit(frame.drop(columns="note"), y)
    assert without.oob_score_ < 0.5


def test_numbers_and_rankings_read_text_too():
    frame, y = draw_frame()
    assert NRSRegressor(**FAST).fit(frame, y.astype(float)).oob_score_ > 0.3
    ranker = NRSRanker(**FAST).fit(frame, y, qid=np.repeat(np.arange(24), 10))
    assert ranker.encoder_.kinds_[1] == "text"
    assert np.isfinite(ranker.predict(frame)).all()


def test_attributions_are_those_of_the_column(fitted):
    model, frame, _ = fitted
    values = nrs.explain.attribute(model, frame[:5]).columns
    assert values.shape == (5, 3)
    assert np.abs(values[1:, 1]).sum() > np.abs(values[1:, 0]).sum()
    assert len(model.trees())


def test_a_model_is_the_same_after_loading(fitted, tmp_path):
    model, frame, _ = fitted
    model.save(tmp_path / "m.safetensors")
    loaded = NRSClassifier.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    assert loaded.encoder_.column_encoder(1) == model.encoder_.column_encoder(1)


STRANGE = [
    *("", " ", "?!", "A small Library, for LINUX", "Щ 漢字 library", "İstanbul ÜBUNG übung"),
    *("a", "game " * 2500, "small\n\tgame\u00a0and\u2003editor", "quick" * 40, "e\u0301ditor"),
]


def test_onnx_gives_the_same(fitted, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from nrs.tabular.export import onnx_inputs

    model, frame, _ = fitted
    model.to_onnx(tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    some = frame[: len(STRANGE)].assign(note=STRANGE)
    for rows in (frame, some, *(some[k : k + 1] for k in range(len(some))), frame[:1]):
        _, odds = session.run(None, onnx_inputs(model, rows))
        np.testing.assert_allclose(odds, model.predict_proba(rows), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("words", text.pack(np.array([2, 1]), "<i8"), "must ascend"),
        ("alphabet", "ba", "must ascend"),
        ("factor", text.pack(np.zeros(2), "<f4"), "must suit"),
        ("factor", None, "factors"),
        ("rarity", None, "count from"),
        ("center", None, "factors"),
        ("pieces", "", "must suit"),
        ("directions", "!", "base64"),
        ("words", text.pack(np.arange(3), "|i1"), "buffer size"),
        ("missing", 3, "true or false"),
        ("words", 3, "a text"),
    ],
)
def test_a_forged_header_is_refused(fitted, name, value, message, tmp_path):
    from nrs.training.files import read_model, write_model
    from nrs.training.schema import ModelFileError

    model, _, _ = fitted
    path = tmp_path / "m.safetensors"
    model.save(path)
    file = read_model(path)
    state = file.header["encoder"]["columns"][0]["state"]
    if value is None:
        value = text.pack(np.full_like(text.unpack(state[name], "<f4"), np.nan), "<f4")
    state[name] = value
    write_model(path, file.tensors, file.header, kind=file.kind)
    with pytest.raises(ModelFileError, match=message):
        NRSClassifier.load(path)


def test_few_and_odd_texts_make_no_trouble():
    for texts in ([], [""], ["one two three"], ["?"] * 3, [f"w{n}" for n in range(9)], ["aa"] * 50):
        encoder = learn(texts)
        assert isinstance(encoder, TextEncoder)
        assert np.isfinite(encode(encoder, ["one two", "", None])).all()
    assert not is_text([], 0)


def test_the_command_line_does_not_take_text_for_an_id(tmp_path):
    from nrs.files.read import read_labelled

    frame, label = draw_frame()
    frame.dropna().assign(y=label[frame["note"].notna()]).to_csv(tmp_path / "t.csv", index=False)
    found = {one.name: one for one in read_labelled(tmp_path / "t.csv", "y").columns}
    assert found["note"].kind == "text"
    assert "different texts" in found["note"].values
    assert not found["note"].is_identifier
    assert found["kind"].kind == "category"
