"""Every official layout of the picture sets, on small files in exactly that form."""

import tarfile
from dataclasses import replace

import numpy as np
import pytest
import scipy.io
from PIL import Image

from nrs.datasets import get, info
from nrs.vision import data as vision_data
from nrs.vision.data import DataSettings, Preparation, read_cifar, read_data
from nrs.vision.official import read_aircraft, read_cars, read_cub, read_imagenet
from tests.datasets.test_cifar_pickle import official as cifar_batch

SMALL = Preparation(size=8, resize=8)


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """An empty folder for data, and a cache of its own."""
    monkeypatch.setenv("NRS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NRS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def _picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).save(path, format="JPEG")


def _pack(archive, folder, *names):
    with tarfile.open(archive, "w:gz") as tar:
        for name in names:
            tar.add(folder / name, name)


def _cub(folder):
    for number, (name, label, train) in enumerate(
        [("001.Gull/a.jpg", 1, 1), ("001.Gull/b.jpg", 1, 0), ("002.Wren/c.jpg", 2, 1)], start=1
    ):
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(path)
        for file, text in (
            ("images", f"{number} {name}"),
            ("image_class_labels", f"{number} {label}"),
            ("train_test_split", f"{number} {train}"),
        ):
            with open(folder / f"{file}.txt", "a") as out:
                out.write(text + "\n")
    (folder / "classes.txt").write_text("1 001.Gull\n2 002.Wren\n")


def test_cub(tmp_path):
    _cub(tmp_path)
    train, test = read_cub(tmp_path)
    assert (train.classes, train.labels, test.labels) == (["Gull", "Wren"], [0, 1], [0])
    assert train[1][0].size == (8, 8)
    (tmp_path / "train_test_split.txt").write_text("1 1\n")
    with pytest.raises(ValueError, match="not in every other list"):
        read_cub(tmp_path)
    (tmp_path / "classes.txt").unlink()
    with pytest.raises(ValueError, match=r"has no classes\.txt"):
        read_cub(tmp_path)


def _aircraft(folder):
    lists = folder / "fgvc-aircraft-2013b" / "data"
    for number in ("1025794", "1340192", "0056978", "0698580"):
        _picture(lists / "images" / f"{number}.jpg")
    (lists / "variants.txt").write_text("707-320\nCessna 172\nF-16A/B\n")
    (lists / "images_variant_trainval.txt").write_text("1025794 Cessna 172\n1340192 707-320\n")
    (lists / "images_variant_test.txt").write_text("0056978 F-16A/B\n0698580 707-320\n")


def test_aircraft_by_name_from_its_archive(tmp_path, data, monkeypatch):
    _aircraft(tmp_path / "source")
    _pack(data / "fgvc-aircraft-2013b.tar.gz", tmp_path / "source", "fgvc-aircraft-2013b")
    whole = info("FGVC-Aircraft")
    unchecked = replace(whole, sources=(replace(whole.sources[0], checksum=None),))
    monkeypatch.setattr(vision_data, "get", lambda name: get(unchecked))
    parts = read_data(DataSettings(reader="aircraft", name="FGVC-Aircraft"), SMALL)
    assert (parts.train.labels, parts.test.labels) == ([1, 0], [2, 0])
    assert parts.classes == ["707-320", "Cessna 172", "F-16A/B"]
    assert parts.test[0][0].shape == (3, 8, 8)


def test_aircraft_from_any_folder_around_it(tmp_path):
    _aircraft(tmp_path)
    for folder in (tmp_path, tmp_path / "fgvc-aircraft-2013b"):
        assert read_aircraft(folder)[0].labels == [1, 0]
    (tmp_path / "fgvc-aircraft-2013b/data/images_variant_test.txt").write_text("1 Zeppelin\n")
    with pytest.raises(ValueError, match="Zeppelin"):
        read_aircraft(tmp_path)
    with pytest.raises(FileNotFoundError, match="must hold FGVC-Aircraft"):
        read_aircraft(tmp_path / "elsewhere")


BOX = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")


def _table(*rows):
    """A struct array of MATLAB, with a box for each picture as in the official files."""
    names = [*BOX, *rows[0]]
    table = np.empty((1, len(rows)), dtype=[(name, object) for name in names])
    for place, row in enumerate(rows):
        values = dict.fromkeys(BOX, 1) | row
        table[0, place] = tuple(values[name] for name in names)
    return table


def _names(*names):
    cells = np.empty((1, len(names)), dtype=object)
    cells[0, :] = names
    return cells


def _cars(folder):
    for name in ("cars_train/00001.jpg", "cars_train/00002.jpg", "cars_test/00001.jpg"):
        _picture(folder / name)
    (folder / "devkit").mkdir()
    train = _table({"class": 2, "fname": "00001.jpg"}, {"class": 1, "fname": "00002.jpg"})
    scipy.io.savemat(folder / "devkit/cars_train_annos.mat", {"annotations": train})
    names = _names("AM General Hummer SUV 2000", "Acura RL Sedan 2012")
    scipy.io.savemat(folder / "devkit/cars_meta.mat", {"class_names": names})
    # The devkit's own list of test pictures has no classes.
    unlabelled = _table({"fname": "00001.jpg"})
    scipy.io.savemat(folder / "devkit/cars_test_annos.mat", {"annotations": unlabelled})
    labelled = _table({"class": 2, "fname": "00001.jpg"})
    scipy.io.savemat(folder / "cars_test_annos_withlabels.mat", {"annotations": labelled})


@pytest.mark.parametrize("place", ["", "stanford_cars"])
def test_cars_by_name_from_its_archives(tmp_path, data, place):
    source, folder = tmp_path / "source", data / place
    source.mkdir()
    _cars(source)
    folder.mkdir(exist_ok=True)
    for archive, name in (
        ("cars_train", "cars_train"),
        ("cars_test", "cars_test"),
        ("car_devkit", "devkit"),
    ):
        _pack(folder / f"{archive}.tgz", source, name)
    labels = "cars_test_annos_withlabels.mat"
    (folder / labels).write_bytes((source / labels).read_bytes())
    parts = read_data(DataSettings(reader="cars", name="Stanford-Cars"), SMALL)
    assert (parts.train.labels, parts.test.labels) == ([1, 0], [1])
    assert parts.classes[1] == "Acura RL Sedan 2012"
    assert parts.train[1][0].shape == (3, 8, 8)
    # Unpacked once.
    assert (tmp_path / "cache" / "stanford_cars" / "devkit").is_dir()
    again = read_data(DataSettings(reader="cars", name="Stanford-Cars"), SMALL)
    assert again.test.labels == [1]


def test_cars_in_their_other_form(tmp_path, data):
    source = tmp_path / "source"
    for number in (1, 2, 3):
        _picture(source / f"car_ims/00000{number}.jpg")
    rows = [
        {"relative_im_path": f"car_ims/00000{n}.jpg", "class": k, "test": t}
        for n, k, t in ((1, 1, 0), (2, 2, 1), (3, 2, 0))
    ]
    names = _names("AM General Hummer SUV 2000", "Acura RL Sedan 2012")
    scipy.io.savemat(data / "cars_annos.mat", {"annotations": _table(*rows), "class_names": names})
    _pack(data / "car_ims.tgz", source, "car_ims")
    train, test = read_cars(get("Stanford-Cars"))
    assert (train.labels, test.labels, len(train.classes)) == ([0, 1], [1], 2)
    assert train[1][0].size == (8, 8)


def test_cars_without_test_labels_say_which_file_has_them(tmp_path):
    _cars(tmp_path)
    labels = tmp_path / "cars_test_annos_withlabels.mat"
    labels.unlink()
    with pytest.raises(FileNotFoundError, match=r"cars_test_annos_withlabels\.mat"):
        read_cars(tmp_path)
    labels.write_bytes((tmp_path / "devkit/cars_test_annos.mat").read_bytes())
    with pytest.raises(ValueError, match="it lacks class"):
        read_cars(tmp_path)


def _imagenet(folder):
    for name in ("n01440764/n01440764_10026.JPEG", "n01443537/n01443537_2.JPEG"):
        _picture(folder / "train" / name)
    for number in (1, 2, 3):
        _picture(folder / "val" / f"ILSVRC2012_val_0000000{number}.JPEG")


def _devkit(folder):
    """The development kit, which numbers the classes otherwise than WordNet's names sort."""
    tables = folder / "ILSVRC2012_devkit_t12" / "data"
    tables.mkdir(parents=True)
    fields = ("ILSVRC2012_ID", "WNID", "words", "gloss", "num_children", "num_train_images")
    synsets = np.empty((3, 1), dtype=[(name, object) for name in fields])
    synsets[0, 0] = (1, "n01443537", "goldfish", "small fish", 0, 1300)
    synsets[1, 0] = (2, "n01440764", "tench", "freshwater fish", 0, 1300)
    synsets[2, 0] = (1001, "n00001740", "entity", "that which is", 2, 0)
    scipy.io.savemat(tables / "meta.mat", {"synsets": synsets})
    (tables / "ILSVRC2012_validation_ground_truth.txt").write_text("2\n1\n1\n")


@pytest.mark.parametrize("packed", [True, False])
def test_imagenet_with_a_flat_val_and_the_official_ground_truth(tmp_path, data, packed):
    _imagenet(data / "imagenet")
    _devkit(tmp_path if packed else data / "imagenet")
    if packed:
        archive = data / "imagenet" / "ILSVRC2012_devkit_t12.tar.gz"
        _pack(archive, tmp_path, "ILSVRC2012_devkit_t12")
    parts = read_data(DataSettings(reader="imagenet", name="ImageNet"), SMALL)
    assert parts.classes == ["n01440764", "n01443537"]
    assert (parts.train.labels, parts.test.labels) == ([0, 1], [0, 1, 1])
    assert parts.test[2][0].shape == (3, 8, 8)


def test_imagenet_as_kaggle_has_it(tmp_path):
    _imagenet(tmp_path / "ILSVRC/Data/CLS-LOC")
    lines = ["ImageId,PredictionString"] + [
        f"ILSVRC2012_val_0000000{number},{name} 1 2 30 40 "
        for number, name in ((3, "n01440764"), (1, "n01443537"), (2, "n01440764"))
    ]
    (tmp_path / "LOC_val_solution.csv").write_text("\n".join(lines))
    assert read_imagenet(tmp_path)[1].labels == [1, 0, 0]
    (tmp_path / "LOC_val_solution.csv").write_text("\n".join(lines[:2]))
    with pytest.raises(ValueError, match="ILSVRC2012_val_00000001 is missing"):
        read_imagenet(tmp_path)


def test_imagenet_sorted_by_class_and_without_classes(tmp_path):
    _imagenet(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"ILSVRC2012_devkit_t12\.tar\.gz"):
        read_imagenet(tmp_path)
    for number, name in ((1, "n01443537"), (2, "n01440764"), (3, "n01443537")):
        file = tmp_path / "val" / f"ILSVRC2012_val_0000000{number}.JPEG"
        (tmp_path / "val" / name).mkdir(exist_ok=True)
        file.rename(tmp_path / "val" / name / file.name)
    assert read_imagenet(tmp_path)[1].labels == [0, 1, 1]


def test_a_truth_of_another_length_is_refused(tmp_path):
    _imagenet(tmp_path)
    _devkit(tmp_path)
    (tmp_path / "val/ILSVRC2012_val_00000002.JPEG").unlink()
    with pytest.raises(ValueError, match="3 lines for 2 pictures"):
        read_imagenet(tmp_path)


def _string(text):
    return b"U" + bytes([len(text)]) + text


def test_cifar_10_from_the_folder_it_unpacks_into(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    red = bytes([200]) * 1024 + bytes(2048)
    for number in range(1, 6):
        (folder / f"data_batch_{number}").write_bytes(cifar_batch(red, [number]))
    (folder / "test_batch").write_bytes(cifar_batch(red, [9]))
    names = b"](" + b"".join(_string(b"class%d" % k) for k in range(10)) + b"e"
    (folder / "batches.meta").write_bytes(b"\x80\x02}(" + _string(b"label_names") + names + b"u.")
    train, test = read_cifar("CIFAR-10", tmp_path)
    assert (train.labels, test.labels, train.classes[9]) == ([1, 2, 3, 4, 5], [9], "class9")
    assert np.asarray(test[0][0])[3, 4].tolist() == [200, 0, 0]


@pytest.mark.parametrize("reader", ["cifar10", "aircraft", "cars", "imagenet"])
def test_an_empty_folder_is_told(tmp_path, reader):
    with pytest.raises(FileNotFoundError, match=r"must (hold|be)|Folder not found"):
        read_data(DataSettings(reader=reader, root=str(tmp_path)), SMALL)
