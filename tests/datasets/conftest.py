"""A web server on this machine that serves good and bad files, and folders of its own."""

import hashlib
import http.server
import socket
import threading
import time
from dataclasses import dataclass, field

import pytest

from nrs.datasets import download
from nrs.datasets.entry import Entry, Source


@dataclass
class Page:
    """A file of the server and how it misbehaves."""

    content: bytes
    etag: str | None = '"one"'
    cut_after: list[int] = field(default_factory=list)  # bytes sent of each of the next answers
    stall_after: list[int] = field(default_factory=list)  # the same, but silent after that
    delay: float = 0.0
    length: int | None = None  # a false Content-Length
    endless: bool = False
    status: int = 200
    redirect: str | None = None
    ranges: bool = True
    modified: str | None = None  # Last-Modified
    careless: bool = False  # sends parts whatever If-Range asks for
    trickle: float = 0.0  # seconds between bytes, of the body or of a header
    trickles_headers: bool = False
    raw: bytes | None = None  # the whole answer as it is


class Server:
    def __init__(self):
        self.pages = {}
        self.requests = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                outer.requests.append((self.path, dict(self.headers)))
                page = outer.pages.get(self.path)
                if page is None:
                    self.send_error(404)
                    return
                outer.answer(self, page)

        class HTTP(http.server.ThreadingHTTPServer):
            request_queue_size = 64
            daemon_threads = True
            block_on_close = False

        self.http = HTTP(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, handler, page):
        time.sleep(page.delay)
        if page.raw is not None:
            handler.wfile.write(page.raw)
            handler.close_connection = True
            return
        if page.trickles_headers:
            handler.send_response(200)
            handler.flush_headers()
            self.trickle(handler, b"X-Slow: " + b"x" * 10**6, page)
            return
        if page.redirect is not None:
            handler.send_response(302)
            handler.send_header("Location", page.redirect)
            handler.end_headers()
            return
        if page.status != 200:
            handler.send_error(page.status)
            return
        start = 0
        asked = handler.headers.get("Range")
        same = handler.headers.get("If-Range") in (page.etag, page.modified)
        if page.ranges and asked and (page.careless or same):
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        body = page.content[start:]
        handler.send_response(206 if start else 200)
        if start:
            total = len(page.content)
            handler.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        if page.etag:
            handler.send_header("ETag", page.etag)
        if page.modified:
            handler.send_header("Last-Modified", page.modified)
        if not page.endless:
            length = len(body) if page.length is None else page.length
            handler.send_header("Content-Length", str(length))
        handler.end_headers()
        if page.trickle:
            self.trickle(handler, body, page)
            return
        if page.stall_after:
            handler.wfile.write(body[: page.stall_after.pop(0)])
            time.sleep(1)
            return
        if page.cut_after:
            body = body[: page.cut_after.pop(0)]
        try:
            handler.wfile.write(body)
            while page.endless:
                handler.wfile.write(body)
        except OSError:
            pass
        handler.close_connection = True

    def trickle(self, handler, content, page):
        end = time.monotonic() + 20
        try:
            for byte in content:
                handler.wfile.write(bytes([byte]))
                time.sleep(page.trickle)
                if time.monotonic() > end:
                    return
        except OSError:
            pass

    def put(self, path, content, **behaviour):
        self.pages[path] = Page(content, **behaviour)
        return self.address + path

    def close(self):
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """Neither the user's folders, nor their proxies, nor long waits."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NRS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NRS_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(download, "READ_TIMEOUT", 5.0)
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.fixture
def data(folders):
    """The folder that NRS_DATA names."""
    return folders / "data"


@pytest.fixture
def offline(monkeypatch):
    def unreachable(*args, **kwargs):
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", unreachable)


TRAIN = b"".join(b"%+d 1:%d 3:0.5\n" % (1 if i % 2 else -1, i) for i in range(1, 7))
TEST = b"".join(b"%+d 2:%d\n" % (1 if i % 2 else -1, i) for i in range(1, 5))


@pytest.fixture
def tiny(server):
    """An entry whose two LIBSVM files the server has, with their checksums."""

    def source(part, content):
        return Source(
            url=server.put(f"/{part}.txt", content),
            file=f"{part}.txt",
            part=part,
            format="libsvm",
            size=len(content),
            checksum=f"sha256:{hashlib.sha256(content).hexdigest()}",
        )

    return Entry(
        name="tiny",
        title="Ten rows",
        files=("tiny",),
        rows={"train": 6, "test": 4},
        shape=(3,),
        n_classes=2,
        page="https://example.org/tiny",
        licence="none",
        sources=(source("train", TRAIN), source("test", TEST)),
    )
