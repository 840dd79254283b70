"""A sample of the fuzzer of model files, and its laws on files that break them."""

import contextlib
import socket

import numpy as np
import pytest

from benchmarks.fuzz import models
from benchmarks.fuzz.forged import damaged, draw_header, put, signed
from benchmarks.fuzz.run import BrokenLawError
from benchmarks.fuzz.specimens import Specimen, specimen
from nrs.cli.info import info
from nrs.training import ModelFileError


@pytest.mark.parametrize("name", ["classes", "level means", "scaled ranker", "tree"])
def test_damaged_and_forged_files_are_refused_or_answer(monkeypatch, name):
    monkeypatch.setattr(models, "FILES", 50)
    counts = models.case(np.random.default_rng(0), (name,))
    assert counts["files refused"] > counts["files loaded"] > 0
    assert sum(counts.values()) == 2 * counts["files of tables"] == 100


def test_a_case_is_drawn_from_its_seed():
    one = specimen("mlp")
    first, again, other = (
        models.draw_content(np.random.default_rng(seed), one) for seed in (5, 5, 6)
    )
    assert first == again != other
    assert damaged(np.random.default_rng(0), one.content) != one.content
    header = one.file.header
    assert draw_header(np.random.default_rng(0), header) != header == one.file.header


def refuse(path):
    raise ModelFileError("no")


def reach(path):
    with socket.socket() as connection, contextlib.suppress(OSError):
        connection.settimeout(0.1)
        connection.connect(("127.0.0.1", 9))


@pytest.mark.parametrize(
    ("load", "answer", "match"),
    [
        (refuse, None, "refused by 'no'"),
        (lambda path: (path.parent / "x").write_text("x"), lambda model: [], r"reached for .*/x"),
        (reach, lambda model: [], "socket.connect"),
        (lambda path: 1, lambda model: [np.array([np.nan])], "not finite"),
    ],
)
def test_a_broken_law_is_seen(tmp_path, load, answer, match):
    one = Specimen(specimen("mlp").file, load, answer)
    with pytest.raises(BrokenLawError, match=match):
        models.check_content(tmp_path / "model.safetensors", one.content, one)


def test_only_a_file_error_is_a_refusal(tmp_path):
    one = Specimen(specimen("mlp").file, lambda path: {}["x"], len)
    with pytest.raises(KeyError):
        models.check_content(tmp_path / "model.safetensors", one.content, one)


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (("header", "recipe"), 1, "header.recipe must be an object"),
        (("header", "about"), [1], "header.about must be an object"),
        (("header", "about", "scores"), {"r2": "x"}, "header.about.scores.r2 must be a number"),
        (("made",), {"seed": {"a": [[[[[[[[[1]]]]]]]]]}}, "made.seed.a"),
    ],
)
def test_info_refuses_what_it_cannot_show(tmp_path, place, value, match):
    one, path = specimen("mlp"), tmp_path / "model.safetensors"
    path.write_bytes(signed(put(one.facts, place, value), one.file.tensors))
    with pytest.raises(ModelFileError, match=match):
        info.__wrapped__(path)
