"""From a folder to a model in use: the four commands of the documentation."""

import csv
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from nrs.cli.app import app
from nrs.paper.tiny_sets import write_pictures

PAGE = Path(__file__).parents[2] / "docs" / "vision.md"
# A network and pictures that take seconds, in place of those of the recipe.
SMALL = [
    "model.name=cifar/resnet20", "model.pretrained=false", "picture.size=16", "picture.resize=18",
    "train.epochs=8", "run.batch_size=4", "run.label_smoothing=0", "train.lr=0.01",
    "augment.randaugment=0", "augment.erase=0",
]  # fmt: skip


def commands():
    text = PAGE.read_text(encoding="utf-8").partition("## From a folder to a model in use")[2]
    lines = text.partition("```console\n")[2].partition("```")[0].splitlines()
    return [shlex.split(line.removeprefix("$ nrs ")) for line in lines]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Tiny birds in one folder, new ones in another; some of each are damaged."""
    root = tmp_path_factory.mktemp("tour")
    made = write_pictures("folder", root / "made")
    (made / "train").rename(root / "birds")
    (made / "test" / "class-0").rename(root / "new")
    for folder in (root / "birds" / "class-1", root / "new"):
        (folder / "damaged.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    (root / "birds" / "empty").mkdir()
    return root


@pytest.mark.slow
def test_four_commands(place, monkeypatch, caplog):
    monkeypatch.chdir(place)
    train, evaluate, predict, export = commands()
    assert [one[0] for one in (train, evaluate, predict, export)] == [
        "train", "evaluate", "predict", "export",
    ]  # fmt: skip
    with caplog.at_level("INFO", "nrs"):
        done = run(*train, *(part for change in SMALL for part in ("--set", change))).output
    said = "\n".join(caplog.messages)
    assert "10 images of 3 classes to train on, 3 to measure on (20 % of each class" in said
    assert re.search(r"epoch 8 of 8  train_loss", said)
    assert "drawn by run.seed=0" in done.splitlines()[-1]
    # Wherever the damaged one is, it is named once in training, and when the end is measured.
    assert said.count("damaged.png cannot be read as an image") in (1, 2)

    found = run(*evaluate, "--json", code=_code(place))
    facts = json.loads(found.stdout)
    assert facts["files"] + len(facts["skipped"]) == 3
    assert "images that training left out, 20 % of each class" in facts["note"]
    page = Path("birds.html").read_text(encoding="utf-8")
    assert "Confusion matrix" in page
    assert page.count("Grad-CAM of the head") == page.count("Grad-CAM of the backbone") > 0
    assert page.count("data:image/png;base64,") == 3 * page.count("Grad-CAM of the head")

    said = run(*predict, code=3)
    assert "skipped: new/damaged.png cannot be read as an image" in said.stderr
    with open("new.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2

    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    run(*export)
    session = runtime.InferenceSession("birds.onnx", providers=["CPUExecutionProvider"])
    from PIL import Image

    classes = json.loads(session.get_modelmeta().custom_metadata_map["nrs"])["classes"]
    for row in rows:
        picture = np.asarray(Image.open(row["input"]))[None]
        (answer,) = session.run(None, {"pictures": picture})
        label = classes.index(row["label_1"])
        assert answer[0, label] == pytest.approx(float(row["probability_1"]), abs=1e-5)

    said = run("info", "run/model.safetensors").output
    assert "cifar/resnet20" in said
    assert "class-0, class-1, class-2" in said
    assert "20 % of each class, seed 0" in said


def _code(place):
    """3 if the damaged picture is among those that training left out."""
    from nrs.vision.data import divide
    from nrs.vision.pictures import read_folder

    test = divide(read_folder(place / "birds"), 0.2, 0)[1]
    return 3 if any(path.name == "damaged.png" for path in test.items) else 0
