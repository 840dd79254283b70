"""Made-up sets in official forms: each is read by the reader of the real one."""

import pytest

from nrs.paper.tiny_sets import CLASSES, write_pictures
from nrs.vision.data import READERS, DataSettings, Preparation, read_data


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_finds_its_set(tmp_path, reader):
    root = write_pictures(reader, tmp_path / "set")
    parts = read_data(DataSettings(reader=reader, root=str(root)), Preparation(size=32, resize=32))
    # CIFAR-10's five batches are five times the same here.
    assert len(parts.train) == 12 * (5 if reader == "cifar10" else 1)
    assert len(parts.test) == 6
    assert len(parts.classes) == CLASSES
    for label in range(CLASSES):
        picture = parts.test[parts.test.labels.index(label)][0]
        assert picture.mean((1, 2)).argmax() == label
