"""Clouds as samples: normalisation, choice of points, augmentation, sources."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.datasets import DatasetFileError, save_npz
from nrs.points import Augmentation, CloudSamples, unit_sphere
from nrs.points.augment import random_drop, random_rotation, rotate
from nrs.points.clouds import choose_points, spread_points
from nrs.points.sources import MODELNET10, MODELNET40, load_clouds


def cloud(points=40, channels=3, seed=0):
    return torch.randn(points, channels, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=25)
@given(st.integers(1, 40), st.integers(0, 1000), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_the_unit_sphere_forgets_place_and_size(points, seed, far, size):
    x = cloud(points, seed=seed).double()
    found = unit_sphere(x * size + far)
    torch.testing.assert_close(found, unit_sphere(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.mean(0), torch.zeros(3).double(), rtol=0, atol=1e-6)
    assert found.norm(dim=1).max() == pytest.approx(1 if points > 1 else 0)
    torch.testing.assert_close(unit_sphere(found), found)


def test_normals_stay_and_odd_clouds_are_handled():
    x = cloud(20, 6)
    assert torch.equal(unit_sphere(x)[:, 3:], x[:, 3:])
    assert unit_sphere(torch.ones(5, 3)).abs().max() == 0
    assert unit_sphere(cloud() * 1e30).isfinite().all()
    assert unit_sphere(cloud() * 1e-30).norm(dim=1).max() == pytest.approx(1)
    with pytest.raises(ValueError, match="finite numbers only"):
        unit_sphere(torch.tensor([[math.nan, 0, 0]]))


@settings(max_examples=20)
@given(st.integers(1, 20), st.integers(1, 40), st.booleans())
def test_points_are_chosen_without_repeats_as_far_as_possible(points, n, random):
    x = torch.arange(points, dtype=torch.float32).unsqueeze(1)
    found = choose_points(x, n, random=random)
    assert len(found) == n
    assert len(set(found[:, 0].tolist())) == min(n, points)
    if not random:
        assert torch.equal(found[: min(n, points)], x[:n])


@pytest.mark.parametrize("most", [1000, 50])
def test_spread_points_cover_a_cloud_in_any_order(most):
    x = cloud(200, 6)
    found = spread_points(x, 20, most=most)
    assert found.shape == (20, 6)
    # Rows of the cloud, normals with them.
    assert (found.unsqueeze(1) == x).all(-1).any(1).all()
    assert torch.equal(found, spread_points(x[torch.randperm(200)], 20, most=most))
    covered = torch.cdist(x[:, :3], found[:, :3]).amin(1).max()
    assert covered < torch.cdist(x[:, :3], x[:20, :3]).amin(1).max()
    assert torch.equal(spread_points(x, 200), x)
    assert len(spread_points(x * 1e-30, 20)) == len(spread_points(x * 1e30, 20)) == 20


def test_each_augmentation_does_its_part():
    torch.manual_seed(0)
    x = cloud(200, 6)
    assert torch.equal(Augmentation()(x), x)
    scaled = Augmentation(scale=(0.8, 1.25))(x)
    factors = scaled[:, :3] / x[:, :3]
    assert factors.std() < 1e-4
    assert 0.8 <= factors.mean() <= 1.25
    assert torch.equal(scaled[:, 3:], x[:, 3:])
    moved = Augmentation(shift=0.1)(x)[:, :3] - x[:, :3]
    assert moved.std(0).max() < 1e-6
    assert 0 < moved.abs().max() <= 0.1 + 1e-6
    shaken = Augmentation(jitter=0.01)(x)[:, :3] - x[:, :3]
    assert shaken.abs().max() <= 0.05 + 1e-6
    assert shaken.std() == pytest.approx(0.01, rel=0.15)
    before = x.clone()
    Augmentation(drop=0.9, rotate="any", scale=(0.5, 2), shift=1, jitter=0.1)(x)
    assert torch.equal(x, before)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from(["y", "z", "any"]))
def test_rotations_keep_distances_and_turn_normals(seed, axis):
    torch.manual_seed(seed)
    turn = random_rotation(axis)
    torch.testing.assert_close(turn @ turn.t(), torch.eye(3), rtol=0, atol=1e-5)
    assert float(torch.linalg.det(turn)) == pytest.approx(1, abs=1e-5)
    x = cloud(10, 6)
    turned = rotate(x, turn)
    torch.testing.assert_close(
        torch.cdist(turned[:, :3], turned[:, :3]), torch.cdist(x[:, :3], x[:, :3]),
        rtol=1e-4, atol=1e-4,
    )  # fmt: skip
    torch.testing.assert_close(
        (turned[:, :3] * turned[:, 3:]).sum(1), (x[:, :3] * x[:, 3:]).sum(1), rtol=1e-4, atol=1e-4
    )
    if axis != "any":
        upright = "xyz".index(axis)
        torch.testing.assert_close(turned[:, upright], x[:, upright])


def test_dropped_points_become_the_first():
    torch.manual_seed(3)
    x = cloud(1000)
    shares = []
    for _ in range(50):
        found = random_drop(x, 0.875)
        kept = (found == x).all(1)
        assert (found[~kept] == x[0]).all()
        shares.append(1 - kept.float().mean().item())
    assert 0 <= min(shares) < 0.1
    assert 0.75 < max(shares) <= 0.9


@pytest.mark.parametrize(
    "arguments", [{"drop": 1.0}, {"rotate": "x"}, {"scale": (2, 1)}, {"shift": -1}, {"jitter": -1}]
)
def test_augmentations_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} must be"):
        Augmentation(**arguments)


def test_samples_are_random_only_with_augmentation():
    clouds = np.random.default_rng(0).normal(size=(3, 50, 6)).astype(np.float16)
    plain = CloudSamples(clouds, [0, 1, 2], points=20)
    assert torch.equal(plain[1][0], plain[1][0])
    assert plain[1][0].shape == (20, 3)
    assert CloudSamples(clouds, [0, 1, 2], points=20, normals=True)[0][0].shape == (20, 6)
    drawn = CloudSamples(clouds, [0, 1, 2], points=20, augmentation=Augmentation())
    torch.manual_seed(0)
    first = drawn[1][0]
    assert not torch.equal(first, drawn[1][0])
    torch.manual_seed(0)
    assert torch.equal(first, drawn[1][0])
    with pytest.raises(ValueError, match="must be as many, however: 3 and 2"):
        CloudSamples(clouds, [0, 1], points=20)
    with pytest.raises(ValueError, match="sample the meshes with normals"):
        CloudSamples(clouds[..., :3], [0, 1, 2], points=20, normals=True)
    with pytest.raises(ValueError, match="points must be at least 1"):
        CloudSamples(clouds, [0, 1, 2], points=0)


def test_sources(tmp_path, monkeypatch):
    monkeypatch.setenv("NRS_DATA", str(tmp_path))
    monkeypatch.setenv("NRS_CACHE", str(tmp_path / "cache"))
    generator = np.random.default_rng(0)
    arrays = {
        "X_train": generator.normal(size=(4, 16, 3)).astype(np.float32),
        "y_train": np.array(["sofa", "bed", "sofa", "bed"]),
        "X_test": generator.normal(size=(2, 16, 3)).astype(np.float32),
        "y_test": np.array(["bed", "sofa"]),
    }
    save_npz(tmp_path / "own.npz", arrays)
    found = load_clouds(tmp_path / "own.npz")
    assert found.classes == ("bed", "sofa")
    assert found.y_train.tolist() == [1, 0, 1, 0]
    assert found.y_test.tolist() == [0, 1]
    save_npz(tmp_path / "odd.npz", arrays | {"y_test": np.array(["bed", "tent"])})
    with pytest.raises(DatasetFileError, match="no test class without training clouds"):
        load_clouds(tmp_path / "odd.npz")
    save_npz(tmp_path / "less.npz", {"X_train": arrays["X_train"]})
    with pytest.raises(DatasetFileError, match="it lacks y_train, X_test, y_test"):
        load_clouds(tmp_path / "less.npz")
    with pytest.raises(ValueError, match=r"source must be one of ModelNet40, .*'letter'"):
        load_clouds("letter")
    assert len(MODELNET40) == len(set(MODELNET40)) == 40
    assert set(MODELNET10) < set(MODELNET40)


def test_meshes_of_the_catalog_are_sampled_once(tmp_path, monkeypatch):
    monkeypatch.setenv("NRS_DATA", str(tmp_path))
    monkeypatch.setenv("NRS_CACHE", str(tmp_path / "cache"))
    off = "OFF3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
    for kind in ("bed", "sofa"):
        for part in ("train", "test"):
            (tmp_path / "ModelNet10" / kind / part).mkdir(parents=True)
            (tmp_path / "ModelNet10" / kind / part / f"{kind}_0001.off").write_text(off)
    first = load_clouds("ModelNet10", stored=32, normals=True)
    assert first.X_train.shape == (2, 32, 6)
    for path in (tmp_path / "ModelNet10").rglob("*.off"):
        path.write_text("gone")
    again = load_clouds("modelnet10", stored=32, normals=True)
    assert np.array_equal(first.X_train, again.X_train)
    assert again.classes == ("bed", "sofa")
