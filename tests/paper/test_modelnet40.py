"""The point-cloud table: what it prints, what a cell measures, what is not here."""

import importlib
from dataclasses import replace

import numpy as np
import pytest

from nrs.paper import entries
from nrs.paper.cloud_plan import METHODS, load_clouds
from nrs.paper.modelnet40 import MODELNET40, PLAN, PUBLISHED, SHORT
from nrs.paper.printed import reported
from nrs.paper.select import cells_of
from nrs.paper.small_clouds import NAME, SMALL_CLOUDS, tiny
from nrs.paper.table import Cell, NotHereError, Subject

COUNTS = {
    "PointNet": 3.471473, "PointNet+NRS": 3.769457, "PointNet++": 1.47588,
    "PointNet+++NRS": 1.773864, "DGCNN": 1.809576, "DGCNN+NRS": 2.995368,
    "PointConv": 19.569657, "RSCNN": 1.289505,
}  # fmt: skip


def test_every_row_of_the_paper_is_there(tmp_path):
    rows = {row["method"] for row in reported("modelnet40")}
    assert rows == set(METHODS) == set(COUNTS)
    shown = entries("modelnet40", tmp_path)
    assert {e["column"] for e in shown} == {"cpu_ms", "accuracy"}
    assert len(shown) == 8 * 2
    accuracy = {e["row"]: e["reported"] for e in shown if e["column"] == "accuracy"}
    assert accuracy["ModelNet40 / DGCNN+NRS"] == 93.1
    assert all(e["status"] == "not run" for e in shown)


@pytest.mark.parametrize("method", COUNTS)
def test_cost_needs_no_data(method):
    plan = replace(PLAN, cost_points=64, cost_repeats=1)
    subject = Subject("modelnet40", "ModelNet40", method, (("what", "cost"),))
    metrics = plan.measure(Cell(subject, 0), {}).metrics
    assert metrics["params_m"] == COUNTS[method]
    printed = next(row for row in reported("modelnet40") if row["method"] == method)
    assert metrics["params_m"] == pytest.approx(float(printed["params_m"]), abs=0.011)
    assert metrics["cpu_ms"] > 0


def test_absent_data_is_told():
    plan = replace(PLAN, load=lambda name, normals: f"no {name}")
    with pytest.raises(NotHereError, match="no ModelNet40"):
        plan.measure(Cell(Subject("modelnet40", "ModelNet40", "PointNet"), 0), {})
    unknown = Subject("modelnet40", NAME, "PointNet")
    with pytest.raises(NotHereError, match="no settings were chosen for pointnet"):
        replace(SMALL_CLOUDS, recipes={}).measure(Cell(unknown, 0), {})


def test_a_trial_is_repeatable_and_tells_its_settings():
    subject = Subject("modelnet40", "ModelNet40", "PointNet+NRS")
    first, again = tiny(Cell(subject, 1)), tiny(Cell(subject, 1))
    assert first.settings == again.settings
    assert first.metrics == again.metrics
    assert first.settings["subspace"] == {"n_mul": 1, "n_per": 32}
    assert first.data == {"n_train": 16, "n_test": 16, "points": 32, "n_classes": 2}


def test_the_smaller_set_is_run_when_named():
    assert {cell.subject.dataset for cell in cells_of(MODELNET40)} == {"ModelNet40"}
    cells = cells_of(MODELNET40, datasets=["modelnet10-points"])
    short = {method for method, (encoder, _) in METHODS.items() if encoder in SHORT}
    assert {cell.subject.method for cell in cells} == short
    assert len(cells) == 6 * 3


def test_the_published_recipes_are_those_of_the_configurations():
    from nrs.points.train import PARTS, find_config
    from nrs.training import read_config

    for name in ("pointnet", "pointnet2", "dgcnn"):
        parts, recipe = read_config(find_config(name), PARTS), PUBLISHED[name]
        assert parts["train"] == recipe.train
        assert parts["run"].batch_size == recipe.batch_size
        assert parts["run"].label_smoothing == recipe.label_smoothing
        assert parts["data"].points == recipe.points
        assert parts["augment"].shift == recipe.augmentation.shift
        assert parts["augment"].scale == pytest.approx(recipe.augmentation.scale, abs=1e-3)
    parts = read_config(find_config("pointnet-modelnet10"), PARTS)
    assert parts["train"] == SHORT["pointnet"].train
    assert parts["augment"] == SHORT["pointnet"].augmentation
    assert parts["data"].points == SHORT["pointnet"].points


def test_normals_come_from_the_official_texts(tmp_path, monkeypatch):
    monkeypatch.setenv("NRS_DATA", str(tmp_path))
    monkeypatch.setenv("NRS_CACHE", str(tmp_path / "cache"))
    # As modelnet40_normal_resampled.zip unpacks; the lists of ModelNet10 lie beside.
    folder = tmp_path / "modelnet40_normal_resampled"
    rng = np.random.default_rng(0)
    names = {"train": ["night_stand_0001", "xbox_0001"], "test": ["xbox_0104"]}
    for part, listed in names.items():
        for name in listed:
            kind = name.rpartition("_")[0]
            (folder / kind).mkdir(parents=True, exist_ok=True)
            points = rng.normal(size=(3000, 6))
            points[:, 3:] /= np.linalg.norm(points[:, 3:], axis=1, keepdims=True)
            rows = [",".join(f"{v:.6f}" for v in row) for row in points]
            (folder / kind / f"{name}.txt").write_text("\n".join(rows) + "\n")
        (folder / f"modelnet40_{part}.txt").write_text("\n".join(listed) + "\n")
        (folder / f"modelnet10_{part}.txt").write_text(listed[0] + "\n")
    (folder / "modelnet40_shape_names.txt").write_text("night_stand\nxbox\n")
    data = load_clouds("ModelNet40", normals=True)
    assert data.X_train.shape == (2, 2048, 6)
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([0, 1], [1])
    assert {name for name, recipe in PUBLISHED.items() if recipe.normals} == {
        "pointnet2", "pointconv",
    }  # fmt: skip


def test_absent_normals_say_which_file_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setenv("NRS_DATA", str(tmp_path))
    monkeypatch.setenv("NRS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(importlib.import_module("nrs.datasets.load"), "fetch", _unreachable)
    assert "modelnet40_normal_resampled.zip" in load_clouds("ModelNet40", normals=True)


def _unreachable(*args, **kwargs):
    from nrs.datasets.errors import UnreachableError

    raise UnreachableError("no network here")
