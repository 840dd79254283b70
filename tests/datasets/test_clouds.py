"""Clouds from text, and folders in the forms in which ModelNet is published."""

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
    with pytest.raises(DatasetFileError, match="a point has 3 numbers"):
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
    with pytest.raises(ValueError, match=r"however: 'a\.jpg'"):
        read_cloud(tmp_path / "a.jpg")


def test_a_folder_of_meshes(tmp_path):
    for kind, size in (("table", 1), ("night_stand", 2)):
        for part, n in (("train", 3), ("test", 2)):
            (tmp_path / kind / part).mkdir(parents=True)
            for i in range(n):
                (tmp_path / kind / part / f"{kind}_{i:04}.off").write_text(OFF.format(size))
    seen = []
    found = read_cloud_folder(
        tmp_path, 16, normals=True, progress=lambda done, total: seen.append((done, total))
    )
    assert found.classes == ("night_stand", "table")
    assert found.X_train.shape == (6, 16, 6)
    assert found.X_test.shape == (4, 16, 6)
    assert found.y_train.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.X_train[0, :, 0].max() > 1 >= found.X_train[3, :, 0].max()
    assert not np.array_equal(found.X_train[0], found.X_train[1])
    assert seen[-1] == (10, 10)
    again = read_cloud_folder(tmp_path, 16, normals=True)
    assert np.array_equal(again.X_test, found.X_test)


def test_packed_meshes_of_a_folder_are_read_too(tmp_path):
    for part in ("train", "test"):
        (tmp_path / "table" / part).mkdir(parents=True)
        path = tmp_path / "table" / part / "table_0001.off.gz"
        path.write_bytes(gzip.compress(OFF.format(1).encode()))
        (tmp_path / "table" / part / "._table_0001.off.gz").write_bytes(b"left behind")
    assert read_cloud_folder(tmp_path, 8).X_train.shape == (1, 8, 3)


def test_a_folder_of_texts_with_lists(tmp_path):
    rows = "\n".join(f"{i},{i},{i},0,0,1" for i in range(4))
    for name in ("night_stand_0001", "night_stand_0002", "sofa_0001"):
        kind = name.rpartition("_")[0]
        (tmp_path / kind).mkdir(exist_ok=True)
        (tmp_path / kind / f"{name}.txt").write_text(rows)
    (tmp_path / "modelnet40_train.txt").write_text("night_stand_0001\nsofa_0001\n")
    (tmp_path / "modelnet40_test.txt").write_text("night_stand_0002\n")
    found = read_cloud_folder(tmp_path, 6)
    assert found.classes == ("night_stand", "sofa")
    assert found.y_train.tolist() == [0, 1]
    # Four points give six: two come twice.
    assert found.X_test[0, :, 0].tolist() == [0, 1, 2, 3, 0, 1]
    (tmp_path / "modelnet40_train.txt").write_text("absent_0001\n" * 9)
    with pytest.raises(DatasetFileError, match="is not there"):
        read_cloud_folder(tmp_path, 6)


def test_a_folder_of_hdf5_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    for name, n in (("ply_data_train0", 3), ("ply_data_train1", 2), ("ply_data_test0", 2)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["data"] = np.random.default_rng(0).normal(size=(n, 8, 3)).astype(np.float32)
            file["normal"] = np.ones((n, 8, 3), np.float32)
            file["label"] = np.arange(n, dtype=np.uint8)[:, None]
    found = read_cloud_folder(tmp_path, 4, normals=True)
    assert found.X_train.shape == (5, 4, 6)
    assert (found.X_train[..., 3:] == 1).all()
    assert found.classes == ("0", "1", "2")
    (tmp_path / "shape_names.txt").write_text("airplane\nbathtub\nbed\n")
    assert read_cloud_folder(tmp_path, 4).classes == ("airplane", "bathtub", "bed")
    # Eight points give twelve: four come twice.
    more = read_cloud_folder(tmp_path, 12).X_train
    assert np.array_equal(more[:, 8:], more[:, :4])
    (tmp_path / "shape_names.txt").write_text("airplane\nbathtub\n")
    with pytest.raises(DatasetFileError, match=r"2 names .* label 2"):
        read_cloud_folder(tmp_path, 4)
    (tmp_path / "ply_data_test0.h5").unlink()
    with pytest.raises(DatasetFileError, match="'test' in their names"):
        read_cloud_folder(tmp_path, 4)


@pytest.mark.parametrize("n", [0, -1])
def test_a_cloud_has_at_least_one_point(tmp_path, n):
    path = tmp_path / "two.txt"
    path.write_text("0,0,0\n1,2,3\n")
    for read in (read_cloud, read_cloud_folder):
        with pytest.raises(ValueError, match=f"at least 1, however: n={n}"):
            read(path, n)


def test_folders_without_clouds_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="must be a folder of clouds"):
        read_cloud_folder(tmp_path / "absent")
    with pytest.raises(DatasetFileError, match="0 training and 0 test files"):
        read_cloud_folder(tmp_path)
