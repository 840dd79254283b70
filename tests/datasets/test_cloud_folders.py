"""Folders of clouds: where files are, which are drawn to measure on, what is skipped."""

import gzip
import os

import numpy as np
import pytest

from nrs.datasets import DatasetFileError, read_cloud_folder
from nrs.datasets.cloud_folders import divide, find_clouds, measured_clouds

OFF = "OFF3 1 0\n0 0 0\n{0} 0 0\n0 {0} 0\n3 0 1 2\n"


def put(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(OFF.format(1))


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


@pytest.mark.parametrize("test", ["test", "val", "valid", "validation"])
@pytest.mark.parametrize("form", ["{part}/{kind}", "{kind}/{part}"])
def test_parts_may_be_outside_or_within_classes(tmp_path, test, form):
    for part, n in (("train", 3), (test, 2)):
        for kind in ("sofa", "bed"):
            place = form.format(part=part, kind=kind)
            put(tmp_path, *(f"{place}/{i}.off" for i in range(n)))
    put(tmp_path, ".git/x/a.off", form.format(part="train", kind=".hidden") + "/a.off")
    (tmp_path / "train" / "empty").mkdir(parents=True, exist_ok=True)
    found = read_cloud_folder(tmp_path, 8)
    assert found.classes == ("bed", "sofa")
    assert (len(found.X_train), len(found.X_test), found.split) == (6, 4, None)
    entries, note = measured_clouds(tmp_path)
    assert len(entries) == 4
    assert note == f"the clouds in {test}/"


def test_a_plain_folder_is_divided_by_the_seed(tmp_path):
    put(tmp_path, *(f"bed/{i}.off" for i in range(10)), *(f"sofa/{i}.off" for i in range(5)))
    put(tmp_path, ".cache/a.off", "bed/._0.off")
    (tmp_path / "bed" / "readme.md").write_text("photographs")
    (tmp_path / "empty").mkdir()
    found = read_cloud_folder(tmp_path, 8, seed=3)
    assert found.classes == ("bed", "sofa")
    assert np.bincount(found.y_train).tolist() == [8, 4]
    assert np.bincount(found.y_test).tolist() == [2, 1]
    assert (found.split["share"], found.split["seed"]) == (0.2, 3)
    entries = find_clouds(tmp_path).train
    files = [divide(entries, 0.2, seed)[1] for seed in range(8)]
    assert len({tuple(one) for one in files}) > 1
    assert divide(entries, 0.2, 3)[1] == files[3]
    # What training left out is found again, wherever the folder is, until its files are others.
    moved = tmp_path.with_name(tmp_path.name + "-moved")
    os.rename(tmp_path, moved)
    entries, note = measured_clouds(moved, found.split)
    assert [path.relative_to(moved) for _, path in entries] == [
        path.relative_to(tmp_path) for _, path in files[3]
    ]
    assert note == "the 3 clouds that training left out, 20 % of each class"
    assert len(measured_clouds(moved)[0]) == 15
    put(moved, "sofa/9.off")
    assert (len(measured_clouds(moved, found.split)[0]), measured_clouds(moved)[1]) == (16, "")


def test_a_class_of_one_cloud_cannot_be_divided(tmp_path):
    put(tmp_path, "bed/0.off", "bed/1.off", "sofa/0.off")
    with pytest.raises(DatasetFileError, match="'sofa' has 1"):
        read_cloud_folder(tmp_path, 8)
    with pytest.raises(ValueError, match="test_share must be between 0 and 1; got 1"):
        divide([], 1, 0)
    # They can be measured on, all of them.
    assert len(measured_clouds(tmp_path)[0]) == 3


def test_a_train_folder_alone_is_divided(tmp_path):
    put(tmp_path, *(f"train/bed/{i}.off" for i in range(5)))
    found = read_cloud_folder(tmp_path, 8)
    assert (len(found.X_train), len(found.X_test)) == (4, 1)


@pytest.mark.parametrize("form", ["test/bed/0.off", "bed/test/0.off"])
def test_a_test_folder_alone_can_be_measured_on(tmp_path, form):
    put(tmp_path, form)
    assert [name for name, _ in measured_clouds(tmp_path)[0]] == ["bed"]
    with pytest.raises(DatasetFileError, match="training clouds of every class; 'bed' has none"):
        read_cloud_folder(tmp_path, 8)


def test_a_class_may_be_called_train(tmp_path):
    put(tmp_path, "train/0.off", "train/1.off", "test/0.off", "test/1.off")
    assert read_cloud_folder(tmp_path, 8).classes == ("test", "train")


def test_files_that_cannot_be_read_are_named_and_skipped(tmp_path):
    put(tmp_path, *(f"{part}/{kind}/{i}.off" for part in ("train", "test") for kind in ("a", "b")
                    for i in range(2)))  # fmt: skip
    (tmp_path / "train/a/nan.off").write_text(OFF.format("nan"))
    (tmp_path / "train/a/zero.stl").write_bytes(b"")
    (tmp_path / "train/b/cut.off").write_text(OFF.format(1)[:-9])
    (tmp_path / "train/b/bare.glb").write_bytes(b"glTF")
    (tmp_path / "test/a/flat.off").write_text("OFF\n3 1 0\n0 0 0\n1 0 0\n2 0 0\n3 0 1 2\n")
    os.mkfifo(tmp_path / "test/a/pipe.off")
    (tmp_path / "test/b/folder.off").mkdir()
    found = read_cloud_folder(tmp_path, 8)
    assert (found.y_train.tolist(), found.y_test.tolist()) == ([0, 0, 1, 1], [0, 0, 1, 1])
    names = {path.name for path, _ in found.skipped}
    assert names == {
        "nan.off", "zero.stl", "cut.off", "bare.glb", "flat.off", "pipe.off", "folder.off",
    }  # fmt: skip
    assert all(path.name in why for path, why in found.skipped)
    assert np.isfinite(found.X_train).all()
    for i in range(2):
        (tmp_path / f"train/b/{i}.off").write_text("")
    with pytest.raises(
        DatasetFileError, match="training cloud of 'b' that can be read; it has none"
    ):
        read_cloud_folder(tmp_path, 8)


def test_classes_without_training_clouds_are_refused(tmp_path):
    put(tmp_path, "train/a/0.off", "test/a/0.off", "test/c/0.off")
    with pytest.raises(DatasetFileError, match="training clouds of every class; 'c' has none"):
        read_cloud_folder(tmp_path, 8)


def test_lists_of_any_length_give_as_many_points(tmp_path):
    for kind in ("a", "b"):
        for i, n in enumerate((3, 50)):
            path = tmp_path / "train" / kind / f"{i}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savetxt(path, np.arange(n)[:, None] * np.ones(3))
            put(tmp_path, f"test/{kind}/0.off")
    found = read_cloud_folder(tmp_path, 20)
    short, long = found.X_train[0, :, 0], found.X_train[1, :, 0]
    assert sorted(set(short)) == [0, 1, 2]
    # Not one end of a scan.
    assert len(set(long)) == 20
    assert long.max() > 30
    assert np.array_equal(read_cloud_folder(tmp_path, 20).X_train, found.X_train)


def test_folders_without_clouds_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="Folder of clouds not found"):
        read_cloud_folder(tmp_path / "absent")
    with pytest.raises(DatasetFileError, match="no such files were found"):
        read_cloud_folder(tmp_path)


@pytest.mark.heavy
def test_a_mesh_of_a_million_faces_is_read(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    ball = trimesh.creation.icosphere(subdivisions=8)
    assert len(ball.faces) > 1_000_000
    put(tmp_path, "a/0.off", "a/1.off")
    ball.export(tmp_path / "a" / "2.stl")
    found = read_cloud_folder(tmp_path, 100)
    assert (len(found.X_train) + len(found.X_test), found.skipped) == (3, [])
