"""Readers of pictures, their preparation, and what is told when something is missing."""

import numpy as np
import pytest
import torch
from PIL import Image

from nrs.datasets import save_npz
from nrs.vision.data import (
    DataSettings,
    Pictures,
    Preparation,
    open_picture,
    read_cifar,
    read_data,
    read_folder,
)

SMALL = Preparation(size=24, resize=28)


def test_a_folder_a_class(pictures):
    train = read_folder(pictures / "train")
    assert (len(train), train.classes) == (12, ["class-0", "class-1", "class-2"])
    assert train.labels == [0] * 4 + [1] * 4 + [2] * 4
    parts = read_data(DataSettings(root=str(pictures)), SMALL)
    assert (len(parts.train), parts.choose, len(parts.test)) == (12, None, 6)
    picture, label = parts.train[5]
    assert (picture.shape, picture.dtype, label) == ((3, 24, 24), torch.float32, 1)


def test_held_out_pictures_are_prepared_without_chance(pictures):
    settings = DataSettings(root=str(pictures), held_out=0.25)
    parts = read_data(settings, SMALL, seed=1)
    assert (len(parts.train), len(parts.choose), len(parts.test)) == (9, 3, 6)
    assert torch.equal(parts.choose[0][0], parts.choose[0][0])
    assert any(not torch.equal(parts.train[0][0], parts.train[0][0]) for _ in range(20))
    limited = read_data(DataSettings(root=str(pictures), limit=6), SMALL)
    assert sorted(limited.train.labels) == [0, 0, 1, 1, 2, 2]


def test_preparation_by_hand():
    array = np.full((32, 32, 3), 255, np.uint8)
    plain = Preparation(size=32, resize=None, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.5))
    x = plain.transform(train=False)(open_picture(array))
    assert x.shape == (3, 32, 32)
    assert x[:, 3, 4].tolist() == [2.0, 2.0, 1.0]
    padded = Preparation(size=32, resize=None, padding=4).transform(train=True)(
        Image.fromarray(array)
    )
    assert padded.shape == (3, 32, 32)


def test_a_picture_of_another_size_is_seen_whole():
    plain = Preparation(size=32, resize=None, mean=(0, 0, 0), std=(1, 1, 1))
    measured = plain.transform(train=False)
    photo = np.zeros((400, 600, 3), np.uint8)
    photo[:200] = 255
    x = measured(open_picture(photo))
    assert x.shape == (3, 32, 32)
    # The upper half is light, not only a few pixels of the middle.
    assert (x[:, :14] > 0.99).all()
    assert (x[:, 18:] < 0.01).all()
    assert measured(open_picture(photo[:16, :16])).min() == pytest.approx(1)
    # Pictures of the right size keep their pixels.
    pixels = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    found = (measured(open_picture(pixels)) * 255).round().permute(1, 2, 0)
    np.testing.assert_array_equal(found.numpy(), pixels[:, 8:40])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 32, "resize": 16}, "resize must be at least size"),
        ({"crop": "middle"}, "crop must be"),
        ({"std": (1.0, 1.0, 0.0)}, "std positive"),
    ],
)
def test_preparations_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        Preparation(**changes)


def test_cifar_from_the_catalog(tmp_path, monkeypatch):
    from nrs.vision import data

    rows = np.zeros((2, 3072), np.uint8)
    rows[0, :1024] = 9  # red
    rows[1, 2 * 1024 + 33] = 7  # blue of the second row and column
    file = tmp_path / "cifar10.npz"
    save_npz(file, {"X_train": rows, "y_train": [3, 5], "X_test": rows, "y_test": [3, 5]})

    def load(name):
        from nrs.datasets import Dataset, read_npz

        arrays = {k: v.astype("float32") if k[0] == "X" else v for k, v in read_npz(file).items()}
        return Dataset("CIFAR-10", **arrays, task="classification", n_classes=10)

    monkeypatch.setattr(data, "load", load)
    train, test = read_cifar("CIFAR-10")
    assert (train.labels, train.classes[3], len(test)) == ([3, 5], "cat", 2)
    first, second = (np.asarray(train[k][0]) for k in range(2))
    assert first[4, 5].tolist() == [9, 0, 0]
    assert second[1, 1].tolist() == [0, 0, 7]


def test_what_is_not_there_is_told(tmp_path, pictures):
    with pytest.raises(FileNotFoundError, match="Folder not found: "):
        read_folder(tmp_path / "none")
    (tmp_path / "empty" / "a").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="No images found"):
        read_folder(tmp_path / "empty")
    with pytest.raises(ValueError, match="a folder 'class-0', which is not one of the"):
        read_folder(pictures / "test", classes=["other"])
    with pytest.raises(ValueError, match=r"data\.root or data\.name"):
        read_data(DataSettings(), SMALL)
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    with pytest.raises(ValueError, match="cannot be read as an image"):
        open_picture(tmp_path / "bad.png")
    with pytest.raises(ValueError, match="the same length; got"):
        Pictures([1, 2], [0], ["a"])
    with pytest.raises(ValueError, match="reader must be one of"):
        DataSettings(reader="zip")
