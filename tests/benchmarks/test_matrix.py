"""The matrix of what people do to networks, for a dozen of them."""

import pytest

from benchmarks import matrix


@pytest.mark.slow
@pytest.mark.parametrize(("source", "name"), matrix.QUICK)
def test_a_dozen_networks_survive_everything(source, name):
    # ONNX files take as long as all else together: two networks stand for it.
    checks = [label for label in matrix.CHECKS if label != "ONNX" or name.startswith("resnet")]
    found = matrix.cell(source, name, checks)
    assert not {label: said for label, said in found.items() if str(said).startswith("fails")}
    assert found["forward"] == found["backward"] == found["remove"] == "ok"


def test_what_fails_without_the_head_too_is_said_to(monkeypatch):
    def refuse(model, x):
        raise RuntimeError("never")

    def refuse_the_head(model, x):
        if model(x).shape[1] == matrix.CLASSES:
            raise RuntimeError("our fault")

    monkeypatch.setitem(matrix.CHECKS, "forward", refuse)
    monkeypatch.setitem(matrix.CHECKS, "FX", refuse_the_head)
    found = matrix.cell("timm", "resnet18", ["forward", "FX"])
    assert found["forward"] == "as before: RuntimeError: never"
    assert found["FX"] == "fails: RuntimeError: our fault"


def test_every_refusal_and_its_advice():
    said = matrix.refusal("levit_128s")
    assert said["tried"] == {"distilled=False": [2, 5], "nn.Sequential": [2, 5]}
    assert "must have one classifier" in said["message"]
    assert len(matrix.TIMM) >= 60
    assert len(matrix.TORCHVISION) >= 20


def test_the_page_counts_what_was_found():
    cell = {"source": "timm", "input": [2, 3, 64, 64], "n_per": 8}
    cells = [
        cell | {"name": "one", "forward": "ok", "FX": "as before: TraceError: no"},
        cell | {"name": "one", "ONNX": "fails: our fault", "get_classifier": "inside MlpHead"},
        cell | {"name": "two", "forward": "ok", "get_classifier": "the network has none"},
        {"name": "three", "message": "two classifiers", "tried": {"distilled=False": [2, 5]}},
    ]
    report = {"command": "x", "settings": {"timm": "1"}, "versions": {"torch": "2"}, "cells": cells}
    lines = [" ".join(line.replace("|", " ").split()) for line in matrix.page(report).splitlines()]
    assert "forward 2 0 0 2" in lines
    assert "FX 0 1 0 1" in lines
    assert "ONNX 0 0 1 1" in lines
    assert "get_classifier 2 0 0 2" in lines
    assert "timm one 64 ok as before fails inside" in lines
    assert "timm one FX TraceError: no" in lines
    assert "three two classifiers distilled=False" in lines
