"""From a folder of meshes to a model in use, by the commands of the documents."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from nrs.cli.app import app
from nrs.points.clouds import unit_sphere
from nrs.points.evaluate import evaluate_folder
from nrs.points.predict import load_encoder, read_prepared

trimesh = pytest.importorskip("trimesh")
DOCUMENT = Path(__file__).parents[2] / "docs" / "points.md"
SMALL = [
    "data.points=64",
    "data.stored=128",
    "train.epochs=15",
    "run.batch_size=8",
    "run.device=cpu",
]
SOLIDS = {
    "ball": lambda size: trimesh.creation.icosphere(subdivisions=1, radius=size),
    # Boxes stand in for chairs: the commands of the document predict a folder of them.
    "chair": lambda size: trimesh.creation.box((size, 1, 1)),
    "stick": lambda size: trimesh.creation.cylinder(radius=0.05, height=2 * size, sections=8),
}


def commands():
    """The commands of the section "From a folder", one list of words each."""
    section = DOCUMENT.read_text(encoding="utf-8").partition("## From a folder")[2]
    block = re.search(r"```\n(.*?)```", section, re.DOTALL)[1]
    return [shlex.split(line, comments=True)[1:] for line in block.splitlines() if line]


def invoke(*words):
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Meshes as ModelNet10 lays them out, some damaged, and what the four commands made of them."""
    folder = tmp_path_factory.mktemp("shapes")
    generator = np.random.default_rng(0)
    for kind, make in SOLIDS.items():
        for part, n in (("train", 8), ("test", 3)):
            (folder / "ModelNet10" / kind / part).mkdir(parents=True)
            for i in range(n):
                mesh = make(generator.uniform(0.8, 1.2))
                mesh.export(folder / "ModelNet10" / kind / part / f"{kind}_{i:04}.off")
    (folder / "ModelNet10/chair/train/chair_0099.off").write_text("OFF\n9 9 0\n0 0 0\n")
    (folder / "ModelNet10/chair/test/chair_0099.off").write_bytes(b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = {}
        for words in commands():
            small = [f"--set={change}" for change in SMALL] if words[0] == "train" else []
            done[words[0]] = invoke(*words, *small)
    return folder, done


def test_the_commands_of_the_document_lead_to_a_model_in_use(place):
    folder, done = place
    assert list(done) == ["train", "evaluate", "predict", "export"]
    assert done["train"].exit_code == 0, done["train"].output
    assert "2 files skipped" in done["train"].output
    # A damaged file among them is named, and the work is done.
    assert done["evaluate"].exit_code == 3, done["evaluate"].output
    assert "skipped" in done["evaluate"].output
    assert "chair_0099.off" in done["evaluate"].output
    assert "9 files" in done["evaluate"].output
    page = (folder / "modelnet10.html").read_text()
    assert page.count("data:image/png") == 9
    for words in ("points carry half of the gradient", "chair_0099.off", "the clouds in test/"):
        assert words in page
    assert done["predict"].exit_code == 3, done["predict"].output
    answers = pd.read_csv(folder / "answers.csv")
    assert len(answers) == 3
    assert "chair_0099" not in answers["input"].str.cat()
    assert answers["picture"].map(lambda name: (folder / name).is_file()).all()
    assert done["export"].exit_code == 0, done["export"].output


def test_the_exported_model_gives_the_answers_of_predict(place):
    folder, _ = place
    encoder, header = load_encoder(folder / "run" / "model.safetensors")
    session = onnxruntime.InferenceSession(folder / "modelnet10.onnx")
    paths = sorted((folder / "ModelNet10").glob("*/test/*0000.off"))
    clouds = torch.stack([read_prepared(path, encoder, header["points"]) for path in paths])
    label, found = session.run(None, {"clouds": clouds.numpy() * 30 + 2})
    with torch.no_grad():
        expected = encoder(unit_sphere(clouds)).softmax(1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert label.tolist() == [header["classes"][i] for i in expected.argmax(1)]


def test_info_says_what_a_model_reads(place):
    folder, _ = place
    facts = json.loads(invoke("info", folder / "run/model.safetensors", "--json").output)
    assert (facts["kind"], facts["encoder"], facts["points"]) == ("points", "pointnet", 64)
    assert facts["classes"] == ["ball", "chair", "stick"]
    assert facts["normals"] is False
    assert facts["test"].startswith("accuracy")
    assert "nrs" in invoke("info", folder / "run/model.safetensors").output


def test_scores_are_those_of_the_answers(place):
    folder, _ = place
    model = folder / "run" / "model.safetensors"
    evaluated = evaluate_folder(model, folder / "ModelNet10")
    assert [path.name for path, _ in evaluated.skipped] == ["chair_0099.off"]
    encoder, header = load_encoder(model)
    right = []
    for path in evaluated.paths:
        with torch.no_grad():
            scores = encoder(read_prepared(path, encoder, header["points"])[None])
        right.append(header["classes"][int(scores.argmax())] == path.parts[-3])
    assert evaluated.scored.scores()["accuracy"] == pytest.approx(np.mean(right))
    said = json.loads(invoke("evaluate", model, folder / "ModelNet10", "--json").stdout)
    assert said["accuracy"] == pytest.approx(np.mean(right))
    assert (said["files"], len(said["skipped"])) == (9, 1)


def test_a_divided_folder_is_measured_by_what_training_left_out(place, tmp_path):
    folder, _ = place
    for kind in SOLIDS:
        (tmp_path / "plain").mkdir(exist_ok=True)
        (tmp_path / "plain" / kind).symlink_to(folder / "ModelNet10" / kind / "train")
    (tmp_path / "plain" / "empty").mkdir()
    small = [f"--set={change}" for change in [*SMALL, "train.epochs=1", "run.seed=4"]]
    done = invoke("train", "points", tmp_path / "plain", "--output", tmp_path / "run", *small)
    assert done.exit_code == 0, done.output
    assert "on 20 % of each class, drawn by run.seed=4" in done.output
    model = tmp_path / "run" / "model.safetensors"
    evaluated = evaluate_folder(model, tmp_path / "plain")
    assert evaluated.note.endswith("clouds that training left out, 20 % of each class")
    assert len(evaluated.paths) + len(evaluated.skipped) == 6
    score = json.loads(invoke("info", model, "--json").output)["test"]
    # Meshes are sampled anew, and these are easy to tell apart or not at all after an epoch.
    assert re.fullmatch(r"accuracy [\d.]+ %", score)


def test_arrays_are_measured_by_their_test_part(place, tmp_path):
    folder, _ = place
    model = folder / "run" / "model.safetensors"
    encoder, header = load_encoder(model)
    paths = sorted((folder / "ModelNet10").glob("*/test/*000?.off"))
    clouds = torch.stack([read_prepared(path, encoder, header["points"]) for path in paths]).numpy()
    labels = np.repeat(np.arange(3), 3)
    arrays = {"X_train": clouds, "y_train": labels, "X_test": clouds, "y_test": labels}
    np.savez(tmp_path / "own.npz", **arrays)
    evaluated = evaluate_folder(model, tmp_path / "own.npz")
    expected = evaluate_folder(model, folder / "ModelNet10").scored.scores()
    assert evaluated.scored.scores() == pytest.approx(expected, abs=1e-4)
    assert evaluated.paths[0].name == "own.npz[0]"


def test_folders_of_other_classes_or_of_nothing_readable_are_refused(place, tmp_path):
    folder, _ = place
    model = folder / "run" / "model.safetensors"
    for i in range(2):
        (tmp_path / "tent").mkdir(exist_ok=True)
        (tmp_path / "tent" / f"{i}.off").write_text("OFF3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")
    with pytest.raises(ValueError, match=r"a class of the model, such as 'ball'.* are tent"):
        evaluate_folder(model, tmp_path)
    (tmp_path / "tent").rename(tmp_path / "ball")
    for i in range(2):
        (tmp_path / "ball" / f"{i}.off").write_text("")
    with pytest.raises(ValueError, match=r"none of the clouds can be read: .*it is empty"):
        evaluate_folder(model, tmp_path)
    done = invoke("predict", model, tmp_path / "ball")
    assert done.exit_code == 2
    assert "none of the clouds in" in done.output
