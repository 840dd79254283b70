import hashlib
import io
import time
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from nrs.datasets import (
    ArchiveError,
    DatasetFileError,
    DatasetNotFoundError,
    DownloadError,
    get,
    info,
    load,
    names,
)
from nrs.datasets.entry import Entry, Source

from .conftest import TEST, TRAIN

# -- without a network ---------------------------------------------------------------------------


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
