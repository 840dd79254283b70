"""From a configuration file to a model file to a prediction with its picture."""

import dataclasses
import gzip
import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from nrs.cli.app import app
from nrs.datasets import save_npz
from nrs.points import PointNet
from nrs.points.critical import critical_points, critical_weights
from nrs.points.predict import load_encoder, predict_file
from nrs.points.train import PARTS, describe_recipe, find_config, recipe_names, run
from nrs.training import ModelFileError, read_config, write_model

CONFIG = """
[model]
name = "pointnet"
subspace = {{ n_mul = 1, n_per = 32 }}
[data]
source = "{source}"
points = 32
[augment]
scale = [0.9, 1.1]
[train]
epochs = 3
lr = 1e-3
[run]
batch_size = 8
device = "cpu"
"""
OFF = "OFF3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Balls and sticks, a configuration, and a trained model."""
    folder = tmp_path_factory.mktemp("run")
    generator = np.random.default_rng(0)
    labels = np.arange(48) % 2
    stretch = np.where(labels[:, None, None] == 1, [1.0, 0.05, 0.05], [1.0, 1.0, 1.0])
    clouds = (generator.normal(size=(48, 40, 3)) * stretch).astype(np.float32)
    save_npz(
        folder / "shapes.npz",
        {"X_train": clouds[:32], "y_train": np.array(["ball", "stick"])[labels[:32]],
         "X_test": clouds[32:], "y_test": np.array(["ball", "stick"])[labels[32:]]},
    )  # fmt: skip
    (folder / "shapes.toml").write_text(CONFIG.format(source=(folder / "shapes.npz").as_posix()))
    outcome = run(folder / "shapes.toml", folder / "out", verbose=0)
    assert outcome.epochs == 3
    return folder


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_a_whole_configuration(name):
    path = find_config(name)
    first = path.read_text().splitlines()[0]
    assert first.startswith(f"# nrs train points --config {name} --output runs/{name}")
    assert describe_recipe(name) in CliRunner().invoke(app, ["train", "points", "--list"]).output
    assert set(tomllib.loads(path.read_text())) == set(PARTS)
    parts = read_config(path, PARTS)
    if name in ("dgcnn", "dgcnn-nrs"):
        assert (parts["train"].optimizer, parts["train"].lr) == ("sgd", 0.1)
        assert parts["run"].label_smoothing == 0.2
    elif name not in ("pointnet-modelnet10", "folder"):
        assert (parts["train"].optimizer, parts["run"].batch_size) == ("adam", 24)
        assert parts["augment"].drop == 0.875


def test_recipes_differ_from_their_baselines_by_the_subspace_only():
    for name in ("pointnet", "pointnet2", "dgcnn"):
        plain, nrs = (tomllib.loads(find_config(n).read_text()) for n in (name, f"{name}-nrs"))
        subspace = nrs["model"].pop("subspace")
        assert subspace == {"n_mul": 1, "n_per": 64 if name == "dgcnn" else 32}
        assert nrs == plain


def test_every_key_is_in_the_documents():
    text = (Path(__file__).parents[2] / "docs" / "points.md").read_text(encoding="utf-8")
    found = set(re.findall(r"^\| `(\w+\.\w+)` \|", text, re.MULTILINE))
    own = ("model", "data", "augment")
    assert found == {f"{part}.{f.name}" for part in own for f in dataclasses.fields(PARTS[part])}


def test_a_missing_configuration_names_the_recipes():
    with pytest.raises(FileNotFoundError, match="pointnet2-nrs"):
        find_config("no-such")


def test_the_same_seed_gives_the_same_model(place, tmp_path):
    run(place / "shapes.toml", tmp_path / "again", verbose=0)
    a, b = (load_encoder(p / "model.safetensors")[0] for p in (place / "out", tmp_path / "again"))
    for one, other in zip(a.state_dict().values(), b.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_a_longer_run_resumes(place, tmp_path):
    changes = ["train.epochs=2", "train.schedule=constant"]
    run(place / "shapes.toml", tmp_path, overrides=changes, verbose=0)
    outcome = run(place / "shapes.toml", tmp_path, overrides=changes, verbose=0)
    assert outcome.epochs == 2
    longer = [*changes, "train.epochs=3"]
    assert (
        run(place / "shapes.toml", tmp_path, overrides=longer, extend=True, verbose=0).epochs == 3
    )
    assert list((tmp_path / "checkpoint").iterdir())


def test_a_held_out_part_chooses_the_epoch(place, tmp_path):
    outcome = run(
        place / "shapes.toml", tmp_path,
        overrides=["data.held_out=0.25", "model.name=dgcnn", "model.subspace=",
                   "model.arguments={ k = 4 }"],
        verbose=0,
    )  # fmt: skip
    header = load_encoder(outcome.path)[1]
    assert header["history"]["best_epoch"] is not None
    assert header["config"]["data"]["held_out"] == 0.25


def test_the_command_trains_and_predicts(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    done = runner.invoke(
        app, ["train", "points", "--config", str(place / "shapes.toml"), "--output", "run",
              "--set", "train.epochs=1"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "test accuracy" in done.output
    (tmp_path / "chair.off").write_text(OFF)
    done = runner.invoke(app, ["predict", "run/model.safetensors", "chair.off"])
    assert done.exit_code == 0, done.output
    assert "ball" in done.output
    assert "stick" in done.output
    assert "critical points in chair-critical.png" in done.output
    assert (tmp_path / "chair-critical.png").read_bytes().startswith(b"\x89PNG")
    done = runner.invoke(app, ["predict", "run/model.safetensors", "chair.off", "--json"])
    (row,) = json.loads(done.output)
    assert sum(entry["probability"] for entry in row["top"]) == pytest.approx(1, abs=1e-4)
    shown = runner.invoke(app, ["info", "run/model.safetensors"]).output
    for words in ("kind        points", "classes     ball, stick", "scores      ",
                  "run.batch_size=8", "seed        ", "fitted to   clouds "):  # fmt: skip
        assert words in shown, words
    (tmp_path / "broken.off").write_text("OFF\n4 4 0\n0 0 0\n")
    (tmp_path / "clouds").mkdir()
    for name in ("chair.off", "broken.off"):
        (tmp_path / "clouds" / name).write_text((tmp_path / name).read_text())
    done = runner.invoke(app, ["predict", "run/model.safetensors", "clouds", "-o", "two.csv"])
    assert done.exit_code == 3
    assert "skipped: " in done.output
    assert "broken.off" in done.output
    assert len((tmp_path / "two.csv").read_text().splitlines()) == 2
    done = runner.invoke(app, ["predict", "run/model.safetensors", "broken.off"])
    assert done.exit_code == 2
    assert "broken.off must be a mesh" in done.output
    done = runner.invoke(app, ["train", "points", "--config", "absent"])
    assert done.exit_code == 2
    assert "pointnet-nrs" in done.output


def test_the_name_of_the_output_decides_its_format(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn = []
    monkeypatch.setattr("nrs.points.predict.draw_cloud", lambda path, *_, **__: drawn.append(path))
    (tmp_path / "chair.off").write_text(OFF)
    start = ["predict", str(place / "out" / "model.safetensors"), "chair.off"]
    columns = ["input", "picture", "label_1", "probability_1", "label_2", "probability_2"]
    for name, read in (
        ("out.csv", pd.read_csv),
        ("out.csv.gz", pd.read_csv),
        ("out.parquet", pd.read_parquet),
        ("out.arrow", pd.read_feather),
        ("out.jsonl", lambda path: pd.read_json(path, lines=True)),
    ):
        done = CliRunner().invoke(app, [*start, "-o", name, "-p"])
        assert done.exit_code == 0, done.output
        assert read(tmp_path / name).columns.tolist() == columns
    for name in ("out.json", "out.json.gz"):
        done = CliRunner().invoke(app, [*start, "-o", name, "--json"])
        assert json.loads(done.output) == {"rows": 1, "wrote": name}
        assert len(pd.read_json(tmp_path / name)["top"][0]) == 2
    for arguments, message in (
        (["-o", "out.xlsx"], "must end with .csv"),
        (["--keep", "id"], "need a model of tables"),
        (["--interval", "0.9"], "need a model of tables"),
    ):
        drawn.clear()
        done = CliRunner().invoke(app, [*start, *arguments])
        assert (done.exit_code, message in done.output) == (2, True), done.output
        assert not drawn


def test_a_folder_is_predicted_file_by_file(place, tmp_path):
    (tmp_path / "clouds").mkdir()
    for i in range(2):
        (tmp_path / "clouds" / f"c{i}.txt").write_text("0 0 0\n1 1 1\n0 1 0\n")
    model = place / "out" / "model.safetensors"
    rows = predict_file(model, tmp_path / "clouds", pictures=None)
    assert len(rows) == 2
    assert "picture" not in rows[0]
    # Those that cannot be read are named, in folders within it too.
    (tmp_path / "clouds" / "more").mkdir()
    (tmp_path / "clouds" / "more" / "cut.off").write_text(OFF[:-5])
    (tmp_path / "clouds" / ".hidden.off").write_text(OFF)
    rows = predict_file(model, tmp_path / "clouds", pictures=None)
    assert [Path(row["input"]).name for row in rows] == ["c0.txt", "c1.txt", "cut.off"]
    assert "cut.off must be a mesh (.off) file; it declares" in rows[2]["error"]
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="it has none"):
        predict_file(model, tmp_path / "none")


def test_every_file_of_a_folder_has_its_picture(place, tmp_path, monkeypatch):
    monkeypatch.setattr("nrs.points.predict.draw_cloud", lambda *_, **__: None)
    for name in ("chair.off", "chair.v1.off", "chair.v2.off"):
        (tmp_path / name).write_text(OFF)
    (tmp_path / "chair.off.gz").write_bytes(gzip.compress(OFF.encode()))
    (tmp_path / "chair.txt").write_text("0 0 0\n1 1 1\n0 1 0\n")
    (tmp_path / "._chair.off").write_text("what an archive left behind")
    rows = predict_file(place / "out" / "model.safetensors", tmp_path, pictures="drawn")
    found = {Path(row["input"]).name: Path(row["picture"]).name for row in rows}
    assert found == {
        "chair.off": "chair-critical.png",
        "chair.off.gz": "chair-critical-2.png",
        "chair.txt": "chair-critical-3.png",
        "chair.v1.off": "chair.v1-critical.png",
        "chair.v2.off": "chair.v2-critical.png",
    }


def test_prediction_does_not_depend_on_the_order_of_points(place, tmp_path):
    points = np.random.default_rng(1).normal(size=(32, 3))
    np.savetxt(tmp_path / "a.txt", points)
    np.savetxt(tmp_path / "b.txt", points[::-1])
    model = place / "out" / "model.safetensors"
    a, b = (predict_file(model, tmp_path / n, pictures=None)[0]["top"] for n in ("a.txt", "b.txt"))
    assert a[0]["probability"] == pytest.approx(b[0]["probability"], abs=1e-5)


def test_a_long_scan_is_judged_by_all_of_it(place, tmp_path):
    points = np.random.default_rng(1).normal(size=(400, 3))
    np.savetxt(tmp_path / "a.txt", points[points[:, 0].argsort()])
    np.savetxt(tmp_path / "b.txt", points)
    model = place / "out" / "model.safetensors"
    a, b = (predict_file(model, tmp_path / n, pictures=None)[0]["top"] for n in ("a.txt", "b.txt"))
    assert a == b


def test_other_files_are_refused(tmp_path):
    write_model(tmp_path / "m.safetensors", {"w": torch.ones(1)}, {}, kind="table")
    with pytest.raises(ModelFileError, match="its kind is 'table'"):
        load_encoder(tmp_path / "m.safetensors")
    header = {"model": {"name": "pointnet", "num_classes": 3}, "classes": ["a"] * 3, "points": 8}
    write_model(tmp_path / "m.safetensors", {"w": torch.ones(1)}, header, kind="points")
    with pytest.raises(ModelFileError, match="the network needs a tensor"):
        load_encoder(tmp_path / "m.safetensors")


def test_critical_points_are_those_that_the_maximum_chose():
    torch.manual_seed(0)
    model = PointNet(5)
    for _ in range(2):
        model(torch.randn(8, 60, 3))
    model.eval()
    cloud = torch.randn(60, 3)
    weights = critical_weights(model, cloud)
    idle = weights == 0
    assert 0 < idle.sum() < 60
    # Points without weight may go, and nothing changes: they won no maximum.
    with torch.no_grad():
        torch.testing.assert_close(
            model(cloud[None]), model(cloud[~idle][None]), rtol=1e-4, atol=1e-5
        )
    heavy = critical_points(weights, 0.5)
    assert weights[heavy].sum() >= 0.5
    assert weights[heavy[:-1]].sum() < 0.5
    assert not model.training
    with pytest.raises(ValueError, match="share must be"):
        critical_points(weights, 0)
