import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nrs.datasets import DatasetFileError, read_npz, save_npz

arrays = hnp.arrays(
    dtype=st.sampled_from([np.float32, np.float16, np.int64, np.uint8, np.bool_, np.dtype("U4")]),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
names = st.text("abcXy_0", min_size=1, max_size=8) | st.sampled_from(["file", "X_train", "args"])


@settings(max_examples=40)
@given(content=st.dictionaries(names, arrays, max_size=4))
def test_what_was_saved_is_read_back(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("npz") / "file.npz"
    save_npz(path, content)
    found = read_npz(path)
    assert found.keys() == content.keys()
    for name, array in content.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_saving_replaces_or_leaves_the_old_file(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "file.npz"
    save_npz(path, {"X": [1, 2]})
    with pytest.raises(TypeError, match="X has dtype object"):
        save_npz(path, {"X": np.array([{}], dtype=object)})
    assert read_npz(path)["X"].tolist() == [1, 2]
    save_npz(path, {"X": [3]})
    assert read_npz(path)["X"].tolist() == [3]
    assert [p.name for p in folder.iterdir()] == ["file.npz"]


def test_only_what_is_named_is_read(tmp_path):
    path = tmp_path / "file.npz"
    save_npz(path, {"X": [1], "y": [2]})
    assert list(read_npz(path, ["y"])) == ["y"]
    with pytest.raises(DatasetFileError, match="lacks z and holds X, y"):
        read_npz(path, ["X", "z"])
    with pytest.raises(FileNotFoundError):
        read_npz(tmp_path / "none.npz")


def test_what_is_no_array_is_refused(tmp_path):
    path = tmp_path / "file.npz"
    save_npz(path, {"X": [1.0]})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("y.npy", "0 1 2")
    assert read_npz(path, ["X"])["X"].tolist() == [1.0]
    with pytest.raises(DatasetFileError, match="y is no array"):
        read_npz(path)
