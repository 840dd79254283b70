import gzip
import hashlib
import json
import math
import socket
import time

import pytest

from nrs.datasets import DatasetNotFoundError, DownloadError, Entry, Source, download, get, load
from nrs.datasets.download import fetch
from nrs.datasets.errors import EntryError, UnreachableError
from tests.threads import in_threads

CONTENT = bytes(range(256)) * 4000
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "in" / "file.bin"


def left_behind(target):
    return sorted(p.name for p in target.parent.iterdir() if not p.name.endswith(".lock"))


def test_a_good_file_comes_in_whole(server, target):
    url = server.put("/file.bin", CONTENT)
    got = fetch(url, target, limit=2_000_000, size=len(CONTENT), checksum=SHA256)
    assert got == target
    assert target.read_bytes() == CONTENT
    assert left_behind(target) == ["file.bin"]


def test_md5_is_known_too(server, target):
    url = server.put("/file.bin", CONTENT)
    fetch(url, target, limit=2_000_000, checksum="md5:" + hashlib.md5(CONTENT).hexdigest().upper())


def test_a_cut_transfer_goes_on_where_it_stopped(server, target):
    url = server.put("/file.bin", CONTENT, cut_after=[300_000, 200_000])
    fetch(url, target, limit=2_000_000, checksum=SHA256)
    assert target.read_bytes() == CONTENT
    ranges = [headers.get("Range") for _, headers in server.requests]
    assert ranges == [None, "bytes=300000-", "bytes=500000-"]


def test_a_later_call_goes_on_where_the_last_one_stopped(server, target):
    url = server.put("/file.bin", CONTENT, cut_after=[1000, 1000, 1000])
    with pytest.raises(DownloadError, match=r"ended after 3,000 of 1,024,000 bytes\. Try again"):
        fetch(url, target, limit=2_000_000, checksum=SHA256)
    assert not target.exists()
    fetch(url, target, limit=2_000_000, checksum=SHA256)
    assert target.read_bytes() == CONTENT
    assert server.requests[-1][1]["Range"] == "bytes=3000-"
    assert left_behind(target) == ["file.bin"]


def test_a_file_that_changed_meanwhile_starts_afresh(server, target):
    url = server.put("/file.bin", b"old" * 1000, cut_after=[10, 10, 10])
    with pytest.raises(DownloadError):
        fetch(url, target, limit=2_000_000)
    server.put("/file.bin", CONTENT, etag='"two"')
    fetch(url, target, limit=2_000_000, checksum=SHA256)
    assert target.read_bytes() == CONTENT


def test_a_kill_between_two_files_does_not_mix_them(server, target, monkeypatch):
    url = server.put("/file.bin", b"old" * 1000, cut_after=[10, 10, 10])
    with pytest.raises(DownloadError):
        fetch(url, target, limit=2_000_000)
    server.put("/file.bin", CONTENT, etag='"two"')
    write_state = download._write_state

    def killed(*args):
        write_state(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "_write_state", killed)
    with pytest.raises(KeyboardInterrupt):
        fetch(url, target, limit=2_000_000)
    monkeypatch.setattr(download, "_write_state", write_state)
    fetch(url, target, limit=2_000_000)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("behaviour", [{"etag": None}, {"etag": 'W/"weak"'}, {"ranges": False}])
def test_without_a_promise_of_the_same_bytes_a_cut_starts_afresh(server, target, behaviour):
    url = server.put("/file.bin", CONTENT, cut_after=[1000], **behaviour)
    fetch(url, target, limit=2_000_000, checksum=SHA256)
    assert target.read_bytes() == CONTENT


def test_a_truncated_file_is_refused(server, target):
    url = server.put("/file.bin", CONTENT[:1000], length=len(CONTENT), etag=None)
    with pytest.raises(DownloadError, match="ended after 1,000 of 1,024,000"):
        fetch(url, target, limit=2_000_000)
    assert not target.exists()


def test_a_shorter_file_than_known_is_refused(server, target):
    url = server.put("/file.bin", CONTENT[:-1])
    with pytest.raises(DownloadError, match=r"1,024,000 bytes; it has 1,023,999"):
        fetch(url, target, limit=2_000_000, size=len(CONTENT))
    assert left_behind(target) == []


def test_an_altered_file_is_refused_and_forgotten(server, target):
    url = server.put("/file.bin", b"!" + CONTENT[1:])
    with pytest.raises(DownloadError, match="checksum") as caught:
        fetch(url, target, limit=2_000_000, size=len(CONTENT), checksum=SHA256)
    assert "altered" in str(caught.value)
    assert left_behind(target) == []


def test_a_file_declared_too_large_is_refused_before_it_comes(server, target):
    url = server.put("/file.bin", b"x", length=10**12)
    with pytest.raises(DownloadError, match="at most 1,000 bytes"):
        fetch(url, target, limit=1000)
    assert left_behind(target) == []


def test_a_file_without_end_is_refused(server, target):
    url = server.put("/file.bin", CONTENT, endless=True)
    with pytest.raises(DownloadError, match="at most 3,000,000 bytes"):
        fetch(url, target, limit=3_000_000)
    assert left_behind(target) == []


def test_a_server_that_stalls_is_given_up(server, target, monkeypatch):
    monkeypatch.setattr(download, "READ_TIMEOUT", 0.3)
    url = server.put("/file.bin", CONTENT, delay=1)
    start = time.monotonic()
    with pytest.raises(UnreachableError, match="did not answer"):
        fetch(url, target, limit=2_000_000)
    assert time.monotonic() - start < 2


def test_a_transfer_that_stalls_goes_on_where_it_stopped(server, target, monkeypatch):
    monkeypatch.setattr(download, "READ_TIMEOUT", 0.3)
    url = server.put("/file.bin", CONTENT, stall_after=[5000])
    fetch(url, target, limit=2_000_000, checksum=SHA256)
    assert target.read_bytes() == CONTENT
    assert server.requests[-1][1]["Range"] == "bytes=5000-"


def test_a_slow_server_is_waited_for(server, target):
    url = server.put("/file.bin", CONTENT, delay=0.2)
    fetch(url, target, limit=2_000_000, checksum=SHA256)
    assert target.read_bytes() == CONTENT


def test_an_absent_file_and_a_refusal_say_so(server, target):
    with pytest.raises(UnreachableError, match="answered 404"):
        fetch(server.address + "/none", target, limit=1000)
    with pytest.raises(UnreachableError, match="answered 503"):
        fetch(server.put("/busy", b"", status=503), target, limit=1000)


def test_redirects_stay_on_the_web(server, target):
    server.put("/file.bin", CONTENT)
    fetch(server.put("/moved", b"", redirect="/file.bin"), target, limit=2_000_000)
    assert target.read_bytes() == CONTENT
    url = server.put("/evil", b"", redirect="ftp://127.0.0.1/file.bin")
    with pytest.raises(UnreachableError, match="not followed"):
        fetch(url, target.with_name("other"), limit=2_000_000)
    with pytest.raises(UnreachableError, match="http"):
        fetch("file:///etc/hostname", target.with_name("other"), limit=2_000_000)


def test_a_closed_port_fails_at_once(target):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = time.monotonic()
    with pytest.raises(UnreachableError, match="cannot be reached"):
        fetch(f"http://127.0.0.1:{port}/file", target, limit=1000)
    assert time.monotonic() - start < 1


@pytest.mark.parametrize("stuck", ["getaddrinfo", "connect"])
def test_a_name_look_up_or_a_route_that_hangs_fails_within_two_seconds(target, monkeypatch, stuck):
    def hang(*args, **kwargs):
        time.sleep(4)
        raise OSError("too late")

    name = "getaddrinfo" if stuck == "getaddrinfo" else "create_connection"
    monkeypatch.setattr(socket, name, hang)
    start = time.monotonic()
    with pytest.raises(UnreachableError, match="no answer in time"):
        fetch("https://example.invalid/file", target, limit=1000)
    assert time.monotonic() - start < 2


def test_two_at_once_do_not_write_the_same_partial_file(server, target):
    url = server.put("/file.bin", CONTENT, delay=0.2)
    in_threads(4, lambda _: fetch(url, target, limit=2_000_000, checksum=SHA256))
    assert target.read_bytes() == CONTENT
    assert left_behind(target) == ["file.bin"]


def test_an_opener_can_be_given(target, server):
    import urllib.request

    url = server.put("/file.bin", CONTENT)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    fetch(url, target, limit=2_000_000, opener=opener)
    assert target.read_bytes() == CONTENT


def test_a_terminal_shows_a_bar_and_a_notebook_nothing(server, target, monkeypatch, capsys):
    import io

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    url = server.put("/file.bin", CONTENT)
    fetch(url, target, limit=2_000_000)
    assert capsys.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    fetch(url, target.with_name("again.bin"), limit=2_000_000)
    assert "again.bin" in terminal.getvalue()


def test_attempts_are_few():
    assert download.CONNECT_TIMEOUT < 2
    assert download.ATTEMPTS <= 5


OLD = b"old" * 1000


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"etag": '"one"'}, {"etag": '"two"'}),
        ({"etag": '"one"', "modified": "Mon"}, {"etag": '"one"', "modified": "Tue"}),
        ({"etag": None, "modified": "Mon"}, {"etag": None, "modified": "Tue"}),
        ({"etag": 'W/"one"', "modified": "Mon"}, {"etag": 'W/"two"', "modified": "Mon"}),
    ],
)
def test_a_part_of_another_file_starts_again_from_the_first_byte(server, target, before, after):
    # A server that heeds no If-Range, of files of one length.
    url = server.put("/file.bin", OLD, cut_after=[10, 10, 10], **before)
    with pytest.raises(DownloadError):
        fetch(url, target, limit=2_000_000)
    new = b"new" * 1000
    server.put("/file.bin", new, careless=True, **after)
    fetch(url, target, limit=2_000_000)
    assert target.read_bytes() == new
    assert "Range" not in server.requests[-1][1]


def test_a_part_without_a_name_of_its_file_is_taken(server, target):
    url = server.put("/file.bin", CONTENT, cut_after=[1000])
    # As a server may after If-Range: the date alone was promised.
    page = server.pages["/file.bin"]
    page.modified = "Mon"
    fetch(url, target, limit=2_000_000, checksum=SHA256)
    assert target.read_bytes() == CONTENT
    assert server.requests[-1][1]["Range"] == "bytes=1000-"


@pytest.mark.parametrize(
    "behaviour",
    [
        {"trickle": 0.05},
        {"trickle": 0.05, "endless": True},
        {"trickle": 0.05, "trickles_headers": True},
    ],
    ids=["length", "no length", "headers"],
)
def test_a_trickle_is_cut_after_the_whole_time(server, target, monkeypatch, behaviour):
    # Every read succeeds well within READ_TIMEOUT.
    monkeypatch.setattr(download, "GRACE_SECONDS", 0.5)
    url = server.put("/file.bin", CONTENT, **behaviour)
    start = time.monotonic()
    with pytest.raises(DownloadError, match=r"is too slow: [0-9]+ bytes|did not answer in time"):
        fetch(url, target, limit=2_000_000)
    assert time.monotonic() - start < 3
    assert not target.exists()


def test_a_line_that_never_ends_is_cut_too(server, target, monkeypatch):
    monkeypatch.setattr(download, "GRACE_SECONDS", 0.5)
    url = server.put("/file.bin", b"", raw=b"")

    def answer(handler, page):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        page.trickle = 0.05
        server.trickle(handler, b"0" * 10**6, page)

    monkeypatch.setattr(server, "answer", answer)
    start = time.monotonic()
    with pytest.raises(DownloadError, match="is too slow"):
        fetch(url, target, limit=2_000_000)
    assert time.monotonic() - start < 3


def test_a_steady_download_may_take_longer(server, target, monkeypatch):
    monkeypatch.setattr(download, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(download, "MIN_RATE", 5)
    url = server.put("/file.bin", b"x" * 20, trickle=0.05)
    fetch(url, target, limit=100)
    assert target.read_bytes() == b"x" * 20


NUMBERS = (math.nan, math.inf, -math.inf, -1, 1.5, "9", True)


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_impossible_numbers_of_an_entry_are_refused(tiny, target, value):
    # As json.loads gives them.
    facts = {"file": "a", "part": "all", "format": "table"}
    for name in ("size", "limit"):
        with pytest.raises(EntryError, match=f"{name} must be a whole number"):
            Source(**facts, **{name: value})
        with pytest.raises(DownloadError, match="must be a whole number"):
            fetch("http://127.0.0.1:9/", target, **({"limit": 9} | {name: value}))
    known = {"name": "a", "title": "", "files": ("a",), "rows": {"all": 9}, "shape": (2,)}
    known |= {"n_classes": 2, "page": "", "licence": ""}
    for name, wrong in (("rows", {"all": value}), ("shape", (value,)), ("n_classes", value)):
        with pytest.raises(ValueError, match=f"{name}.* must be a whole number"):
            Entry(**(known | {name: wrong}))
    with pytest.raises(EntryError, match="test_size must be between 0 and 1"):
        Entry(**known, test_size=math.nan)


def test_a_note_of_a_partial_file_with_nan_is_not_believed(server, target):
    url = server.put("/file.bin", CONTENT, cut_after=[10, 10, 10])
    with pytest.raises(DownloadError):
        fetch(url, target, limit=2_000_000)
    note = target.with_name("file.bin.part.json")
    note.write_text(json.dumps(json.loads(note.read_text()) | {"total": math.nan}))
    fetch(url, target, limit=2_000_000, checksum=SHA256)
    assert "Range" not in server.requests[-1][1]


ANSWERS = {
    "no HTTP": b"hello\r\n",
    "nothing": b"",
    "odd status": b"HTTP/1.1 abc OK\r\n\r\n",
    "endless header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10**6,
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 1000,
    "odd chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "superscript length": b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\nETag: x\r\n\r\n" + b"x" * 99,
    "long length": b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n" + b"x" * 99,
    "redirect nowhere": b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n",
}


@pytest.mark.parametrize("name", ANSWERS)
def test_whatever_a_server_answers_there_is_one_error(server, target, name):
    url = server.put("/file.bin", b"", raw=ANSWERS[name])
    with pytest.raises(DownloadError):
        fetch(url, target, limit=50)
    assert not target.exists()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:99999/a", "http://[/", "http://127.0.0.1:1/\n", "", "http://\x00/"]
)
def test_whatever_an_address_is_there_is_one_error(target, url):
    with pytest.raises(DownloadError):
        fetch(url, target, limit=50)


def test_a_checksum_of_another_kind_and_a_full_disk_are_the_same_error(server, target, monkeypatch):
    url = server.put("/file.bin", CONTENT)
    for checksum in ("crc32:00", "sha256:", "sha256:xyz", "md5"):
        with pytest.raises(EntryError, match="checksum must be"):
            fetch(url, target, limit=2_000_000, checksum=checksum)
    (target.parent.parent / "file").touch()
    with pytest.raises(DownloadError, match="cannot be downloaded to"):
        fetch(url, target.parent.parent / "file" / "below", limit=2_000_000)


def test_a_dataset_that_cannot_be_reached_is_the_same_error(tiny, offline):
    for call in (load, get):
        with pytest.raises(DownloadError, match="cannot be fetched"):
            call(tiny)
        with pytest.raises(DatasetNotFoundError, match="Put one of these in place"):
            call(tiny)


def test_a_damaged_archive_of_a_server_is_the_same_error(server):
    source = Source(
        url=server.put("/pictures.tar.gz", gzip.compress(b"no archive")[:-4]),
        file="pictures.tar.gz", part="all", format="files", limit=10_000,
    )  # fmt: skip
    entry = Entry(
        name="pictures", title="", files=("pictures",), rows={"all": 2}, shape=(2,), n_classes=2,
        page="https://example.org", licence="", layout="files", kind="images", sources=(source,),
    )  # fmt: skip
    with pytest.raises(DownloadError, match="does not offer 'pictures' as in the catalog"):
        get(entry)
