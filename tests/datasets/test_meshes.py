"""Meshes: readable, malformed, damaged, and sampled uniformly."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from nrs.datasets import DatasetFileError, Mesh, read_cloud, read_mesh, sample_surface

TETRAHEDRON = "0 0 0\n1 0 0\n0 1 0\n0 0 1\n"
FACES = "3 0 2 1\n3 0 1 3\n3 0 3 2\n3 1 2 3\n"
AREA = 1.5 + np.sqrt(3) / 2


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "header",
    [
        "OFF\n4 4 0\n",
        "OFF\n4 4 6\n",
        "OFF4 4 0\n",  # ModelNet's known fault
        "OFF 4 4 0\n",
        "OFF\r\n4 4 0\r\n",
        "# made by hand\nOFF\n# counts\n4 4 0\n",
        "OFF\n\n4 4 0\n\n",
        "off\n4 4 0\n",
        "\ufeffOFF\n4 4 0\n",
    ],
)
def test_every_way_to_write_the_header_of_an_off_file(tmp_path, header):
    mesh = read_mesh(write(tmp_path, "t.off", header + TETRAHEDRON + FACES))
    assert mesh.vertices.shape == (4, 3)
    assert mesh.faces.tolist() == [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    assert mesh.areas().sum() == pytest.approx(AREA)


def test_polygons_become_triangles(tmp_path):
    square = "OFF\n4 1 0\n0 0 0\n2 0 0\n2 2 0\n0 2 0\n4 0 1 2 3\n"
    mesh = read_mesh(write(tmp_path, "square.off", square))
    assert mesh.areas().tolist() == [2.0, 2.0]


def test_colours_and_compression_do_not_disturb(tmp_path):
    path = tmp_path / "t.OFF.gz"
    coloured = FACES.replace("\n", " 255 0 0\n")
    path.write_bytes(gzip.compress(f"OFF\n4 4 0\n{TETRAHEDRON}{coloured}".encode()))
    assert read_mesh(path).areas().sum() == pytest.approx(AREA)


@pytest.mark.parametrize("kept", [0.3, 0.7, 0.9, 0.999])
def test_a_cut_mesh_is_refused_wherever_it_ends(tmp_path, kept):
    corners = "".join(f"{i * 0.37:.4f} {i % 7} {i % 3}\n" for i in range(300))
    faces = "".join(f"3 {i} {i + 1} {i + 2}\n" for i in range(298))
    whole = f"OFF\n300 298 0\n{corners}{faces}"
    assert len(read_mesh(write(tmp_path, "whole.off", whole.strip())).faces) == 298
    path = write(tmp_path, "cut.off", whole[: int(kept * len(whole)) - 4])
    with pytest.raises(DatasetFileError, match="300 vertices and 298 faces, but ends after"):
        read_mesh(path)


def test_obj_and_ply(tmp_path):
    obj = "".join(f"v {line}\n" for line in TETRAHEDRON.splitlines())
    obj += "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    assert read_mesh(write(tmp_path, "t.obj", obj)).areas().sum() == pytest.approx(AREA)
    ply = (
        "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\n"
        "property float z\nelement face 4\nproperty list uchar int vertex_indices\nend_header\n"
    )
    path = write(tmp_path, "t.ply", ply + TETRAHEDRON + FACES)
    assert read_mesh(path).areas().sum() == pytest.approx(AREA)
    points = ply.replace("face 4", "face 0") + TETRAHEDRON
    path = write(tmp_path, "points.ply", points)
    assert read_cloud(path, 3).shape == (3, 3)
    with pytest.raises(DatasetFileError, match="no faces"):
        read_mesh(path)


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian"])
def test_normals_of_a_cloud_of_points_are_those_that_are_stored(tmp_path, form):
    names = "".join(f"property float {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz"))
    points = np.random.default_rng(0).normal(size=(5, 6)).astype("<f4")
    path = tmp_path / "points.ply"

    def store(rows):
        head = f"ply\nformat {form} 1.0\nelement vertex {len(rows)}\n{names}end_header\n".encode()
        text = "\n".join(" ".join(map(repr, row.tolist())) for row in rows).encode()
        path.write_bytes(head + (text if form == "ascii" else rows.tobytes()))

    store(points)
    np.testing.assert_array_equal(read_cloud(path, normals=True), points)
    np.testing.assert_array_equal(read_cloud(path), points[:, :3])
    points[2, 4] = np.nan
    store(points)
    assert read_cloud(path).shape == (5, 3)
    with pytest.raises(DatasetFileError, match="NaN or infinite"):
        read_cloud(path, normals=True)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("empty.off", "", "it is empty"),
        ("blank.off", " \n\n", "it is empty"),
        ("word.off", "hello\n", "does not begin with OFF"),
        ("short.off", "OFF\n", "numbers of vertices and faces are missing"),
        ("cut.off", "OFF\n4 4 0\n0 0 0\n1 0 0\n", "but ends after 2 lines"),
        ("half.off", f"OFF\n4 4 0\n{TETRAHEDRON}3 0 2 1\n", "4 vertices and 4 faces"),
        ("face.off", "OFF\n3 2 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n", "but ends after 4 lines"),
        ("corner.off", f"OFF\n4 4 0\n{TETRAHEDRON}{FACES[:-3]}", "but ends after 8 lines"),
        ("huge.off", "OFF\n900000000 900000000 0\n0 0 0\n", "more than 20,000,000"),
        ("letters.off", f"OFF\n4 4 0\n{TETRAHEDRON.replace('1', 'x')}{FACES}", "must be a mesh"),
        ("nan.off", f"OFF\n4 4 0\n{TETRAHEDRON.replace('1', 'nan')}{FACES}", "NaN or infinite"),
        ("range.off", f"OFF\n4 1 0\n{TETRAHEDRON}3 0 1 9\n", "face"),
        ("flat.off", f"OFF\n4 1 0\n{TETRAHEDRON}3 0 1 1\n", "no area"),
        ("bare.off", f"OFF\n4 0 0\n{TETRAHEDRON}", "no faces"),
        ("binary.off", "OFF BINARY\n\x00\x01", "it is a binary one"),
        ("empty.ply", "", "it is empty"),
        ("word.ply", "hello there\n", "must be a mesh"),
        ("empty.obj", "# nothing\n", "must be a mesh"),
    ],
)
def test_damaged_meshes_are_named(tmp_path, name, text, message):
    with pytest.raises(DatasetFileError, match=message) as caught:
        read_mesh(write(tmp_path, name, text))
    assert name in str(caught.value)


def test_a_file_larger_than_allowed_is_refused(tmp_path):
    path = write(tmp_path, "t.off", f"OFF\n4 4 0\n{TETRAHEDRON}{FACES}")
    with pytest.raises(DatasetFileError, match="at most 20 bytes"):
        read_mesh(path, max_bytes=20)
    bomb = tmp_path / "bomb.off.gz"
    bomb.write_bytes(gzip.compress(b"OFF\n" + b"0" * 10_000_000))
    with pytest.raises(DatasetFileError, match="at most 1,000,000 bytes"):
        read_mesh(bomb, max_bytes=1_000_000)
    with pytest.raises(DatasetFileError, match="more than 3"):
        read_mesh(path, max_faces=3)


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must be a file \.off, \.obj, \.ply"):
        read_mesh(tmp_path / "chair.step")
    with pytest.raises(FileNotFoundError):
        read_mesh(tmp_path / "absent.off")


@settings(max_examples=30)
@given(st.binary(max_size=200))
def test_random_bytes_never_crash_the_reader(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "x.off"
    path.write_bytes(b"OFF" + content)
    with pytest.raises(DatasetFileError):
        read_mesh(path)


def strips(widths):
    """Right triangles side by side in a plane, of areas widths / 2."""
    left = np.concatenate([[0], np.cumsum(widths)[:-1]])
    corners = [
        np.stack([left, np.zeros_like(left), np.zeros_like(left)], 1),
        np.stack([left + widths, np.zeros_like(left), np.zeros_like(left)], 1),
        np.stack([left, np.ones_like(left), np.zeros_like(left)], 1),
    ]
    return Mesh(np.concatenate(corners), np.arange(3 * len(widths)).reshape(3, -1).T)


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_a_surface_is_sampled_uniformly(seed):
    widths = np.random.default_rng(seed).uniform(0.05, 3, 12)
    mesh = strips(widths)
    np.testing.assert_allclose(mesh.areas(), widths / 2)
    n = 4000
    cloud = sample_surface(mesh, n, seed=seed)
    counts, _ = np.histogram(cloud[:, 0], np.concatenate([[0], np.cumsum(widths)]))
    assert chisquare(counts, n * widths / widths.sum()).pvalue > 1e-5
    # Within triangles too: their points divide where the areas of a right triangle do.
    edges = np.searchsorted(np.cumsum(widths), cloud[:, 0])
    inside = (cloud[:, 0] - (np.cumsum(widths) - widths)[edges]) / widths[edges]
    lower = (inside < 1 - np.sqrt(0.5)).sum()
    assert chisquare([lower, n - lower]).pvalue > 1e-5


def test_samples_lie_on_the_surface_with_its_normals(tmp_path):
    path = write(tmp_path, "t.off", f"OFF\n4 4 0\n{TETRAHEDRON}{FACES}")
    cloud = sample_surface(read_mesh(path), 500, seed=1)
    xyz, normals = cloud[:, :3], cloud[:, 3:]
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, rtol=1e-5)
    slanted = np.abs(normals - 1 / np.sqrt(3)).max(1) < 1e-6
    assert 100 < slanted.sum() < 250
    np.testing.assert_allclose(xyz[slanted].sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose((xyz * normals)[~slanted].sum(1), 0, atol=1e-6)
    assert np.array_equal(cloud, sample_surface(read_mesh(path), 500, seed=1))
    assert not np.array_equal(cloud, sample_surface(read_mesh(path), 500, seed=2))
    assert sample_surface(read_mesh(path), 5, normals=False).shape == (5, 3)


def test_triangles_without_area_are_never_drawn():
    mesh = strips(np.array([0.0, 1.0, 0.0]))
    cloud = sample_surface(mesh, 1000)
    assert ((cloud[:, 0] >= 0) & (cloud[:, 0] <= 1)).all()
    assert (np.abs(cloud[:, 5]) == 1).all()
    with pytest.raises(ValueError, match="no area"):
        sample_surface(strips(np.array([0.0])), 5)
    with pytest.raises(ValueError, match="n must be at least 1"):
        sample_surface(mesh, 0)
