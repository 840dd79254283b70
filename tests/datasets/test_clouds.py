"""One cloud: texts, arrays, meshes of every format."""

import gzip

import numpy as np
import pytest

from nrs.datasets import DatasetFileError, read_cloud, read_cloud_folder

OFF = "OFF3 1 0\n0 0 0\n{0} 0 0\n0 {0} 0\n3 0 1 2\n"


def test_text_of_commas_or_blanks(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("0,1,2,0,0,1\n3,4,5,0,1,0\n")
    assert read_cloud(path, 10).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read_cloud(path, 1, normals=True).tolist() == [[0, 1, 2, 0, 0, 1]]
    path = tmp_path / "a.xyz"
    path.write_text("0 1 2\n3 4 5\n6 7 8\n")
    assert read_cloud(path, 2).shape == (2, 3)
    assert read_cloud(path, 2, whole=True).shape == (3, 3)
    with pytest.raises(DatasetFileError, match="it has no normals"):
        read_cloud(path, 2, normals=True)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("a.csv", "x,y,z\n"),
        ("a.txt", "\ufeff# of a scanner\n# 2 points\nX Y Z\n"),
        ("a.xyz", '"x" "y" "z"\r\n'),
        ("a.pts", "2\n"),
        ("a.pts", ""),
    ],
)
def test_a_line_of_names_or_a_count_is_passed_over(tmp_path, name, header):
    (tmp_path / name).write_bytes(f"{header}0 1 2\n3 4 5\n".encode())
    assert read_cloud(tmp_path / name).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_coordinates_of_a_map_keep_the_shape(tmp_path):
    far = np.array([500_000.0, 5_500_000.0, 120.0])
    points = np.random.default_rng(0).uniform(size=(40, 3))
    np.savetxt(tmp_path / "near.txt", points, fmt="%.6f")
    np.savetxt(tmp_path / "far.txt", points + far, fmt="%.6f")
    near, found = (read_cloud(tmp_path / name) for name in ("near.txt", "far.txt"))
    np.testing.assert_allclose(found - found.mean(0), near - near.mean(0), atol=1e-5)
    np.testing.assert_array_equal(near, points.round(6).astype(np.float32))
    x, y, z = far
    off = f"OFF3 1 0\n{x} {y} {z}\n{x + 1} {y} {z}\n{x} {y + 1} {z}\n3 0 1 2\n"
    (tmp_path / "far.off").write_text(off)
    (tmp_path / "near.off").write_text(OFF.format(1))
    near, found = (read_cloud(tmp_path / name, 50) for name in ("near.off", "far.off"))
    np.testing.assert_allclose(found - found.mean(0), near - near.mean(0), atol=1e-5)
    # A point alone stays where it is.
    (tmp_path / "one.txt").write_text("7 8 9\n")
    assert read_cloud(tmp_path / "one.txt").tolist() == [[7, 8, 9]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("1 2\n", "2 numbers"),
        ("a b c\n", "must be a text cloud"),
        ("1 2 3\n4 5\n", "must be a text cloud"),
        ("1 2 3\n4 5\n", "changed from 3 to 2 at row 2. Remove it"),
        ("2\n1 2 3\n4 5 6\n", "must be a text cloud"),
        ("1 2 3\nx y z\n", "could not convert string 'x'"),
        ("1 2 inf\n", "NaN or infinite"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_damaged_text_is_named(tmp_path, text, message):
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.raises(DatasetFileError, match=message):
        read_cloud(path)


def test_an_unknown_ending_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"got 'a\.jpg'"):
        read_cloud(tmp_path / "a.jpg")


def test_colours_are_not_taken_for_normals(tmp_path):
    generator = np.random.default_rng(0)
    xyz = generator.normal(size=(30, 3))
    normals = xyz / np.linalg.norm(xyz, axis=1, keepdims=True)
    rows = {
        "bytes.txt": np.hstack([xyz, generator.integers(0, 256, (30, 3))]),
        "shares.npy": np.hstack([xyz, generator.random((30, 3))]),
        "normals.npy": np.hstack([xyz, normals]).astype(np.float16),
        "normals.txt": np.hstack([xyz, normals]),
    }
    for name, table in rows.items():
        path = tmp_path / name
        np.save(path, table) if path.suffix == ".npy" else np.savetxt(path, table, fmt="%.4f")
        np.testing.assert_allclose(read_cloud(path, 30), xyz, atol=2e-3)
        if "normals" in name:
            np.testing.assert_allclose(
                read_cloud(path, 30, normals=True)[:, 3:], normals, atol=0.02
            )
        else:
            with pytest.raises(DatasetFileError, match="it has no normals"):
                read_cloud(path, 30, normals=True)
    table = np.hstack([normals, 9 * xyz, xyz])
    (tmp_path / "named.csv").write_text(
        "nx,ny,nz,r,g,b,x,y,z\n" + "\n".join(",".join(f"{v:.6f}" for v in row) for row in table)
    )
    found = read_cloud(tmp_path / "named.csv", 30, normals=True)
    np.testing.assert_allclose(found, np.hstack([xyz, normals]), atol=1e-5)


def test_arrays_hold_points_and_maybe_normals(tmp_path):
    xyz = np.arange(12, dtype=np.int16).reshape(4, 3)
    np.save(tmp_path / "a.npy", xyz)
    (tmp_path / "a.npy.gz").write_bytes(gzip.compress((tmp_path / "a.npy").read_bytes()))
    np.savez(tmp_path / "one.npz", anything=xyz)
    np.savez(tmp_path / "two.npz", label=3, Points=xyz, normals=np.eye(4, 3) + 2)
    for name in ("a.npy", "a.npy.gz", "one.npz", "two.npz"):
        assert read_cloud(tmp_path / name).tolist() == xyz.tolist()
    assert (
        read_cloud(tmp_path / "two.npz", normals=True)[:, 3:].tolist()
        == (np.eye(4, 3) + 2).tolist()
    )
    np.savez(tmp_path / "none.npz", a=xyz, b=xyz)
    np.savez(tmp_path / "few.npz", points=xyz, normals=np.ones((3, 3)))
    np.save(tmp_path / "flat.npy", xyz[:, :2])
    np.save(tmp_path / "words.npy", xyz.astype(str))
    np.save(tmp_path / "objects.npy", np.array([[1, 2, [3]]], object), allow_pickle=True)
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-5])
    huge = whole.replace(b"(4, 3)", b"(9999999999, 3)")
    (tmp_path / "huge.npy").write_bytes(huge.replace(b" " * 9 + b"\n", b"\n"))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "two.npz").read_bytes()[:-40])
    (tmp_path / "empty.npy").write_bytes(b"")
    for name, message in {
        "none.npz": "no array is named points or xyz; it holds a, b",
        "few.npz": "4 points have 3 normals",
        "flat.npy": r"\(points, 3 or more\); got int16 \(4, 2\)",
        "words.npy": "must be numbers",
        "objects.npy": "allow_pickle=False",
        "cut.npy": "must be a cloud",
        "huge.npy": "must be a cloud",
        "cut.npz": "must be a cloud",
        "empty.npy": "must be a cloud",
    }.items():
        with pytest.raises(DatasetFileError, match=message):
            read_cloud(tmp_path / name)


@pytest.mark.parametrize("kind", ["off", "obj", "ply", "stl", "glb"])
def test_every_format_of_a_mesh_gives_its_surface(tmp_path, kind):
    trimesh = pytest.importorskip("trimesh")
    path = tmp_path / f"ball.{kind}"
    trimesh.creation.icosphere(subdivisions=2).export(path)
    cloud = read_cloud(path, 200, normals=True)
    assert cloud.shape == (200, 6)
    np.testing.assert_allclose(np.linalg.norm(cloud[:, :3], axis=1), 1, atol=0.05)
    assert ((cloud[:, :3] * cloud[:, 3:]).sum(1) > 0.9).all()
    assert np.array_equal(cloud, read_cloud(path, 200, normals=True))
    assert not np.array_equal(cloud, read_cloud(path, 200, normals=True, seed=1))
    content = path.read_bytes()
    for cut in (0, 30, len(content) // 2):
        path.write_bytes(content[:cut])
        # What is left of an .obj file may be whole points.
        if kind == "obj" and cut:
            continue
        with pytest.raises(DatasetFileError, match=f"ball.{kind} must be a mesh"):
            read_cloud(path)


def test_the_parts_of_a_scene_are_one_mesh(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    scene = trimesh.Scene(trimesh.creation.box())
    scene.add_geometry(trimesh.creation.box(), transform=np.eye(4) + np.eye(4, k=3) * 5)
    scene.export(tmp_path / "two.glb")
    x = read_cloud(tmp_path / "two.glb", 400)[:, 0]
    assert x.max() == pytest.approx(5.5, abs=0.01)
    assert (x > 2).mean() == pytest.approx(0.5, abs=0.1)


def test_a_mesh_without_faces_is_a_cloud(tmp_path):
    (tmp_path / "a.obj").write_text("v 0 0 0 1 0 0\nv 1 2 3 0 1 0\n")
    (tmp_path / "a.off").write_text("OFF\n2 0 0\n0 0 0\n1 2 3\n")
    for name in ("a.obj", "a.off"):
        assert read_cloud(tmp_path / name).tolist() == [[0, 0, 0], [1, 2, 3]]
        with pytest.raises(DatasetFileError, match="it has no normals"):
            read_cloud(tmp_path / name, normals=True)


@pytest.mark.parametrize("n", [0, -1])
def test_a_cloud_has_at_least_one_point(tmp_path, n):
    path = tmp_path / "two.txt"
    path.write_text("0,0,0\n1,2,3\n")
    for read in (read_cloud, read_cloud_folder):
        with pytest.raises(ValueError, match=f"at least 1; got {n}"):
            read(path, n)
