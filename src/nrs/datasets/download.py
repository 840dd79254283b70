"""Fetching one file: resumed where it was cut, checked, and put in place in one step."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import logging
import os
import re
import secrets
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any, NoReturn

from nrs._util.lock import locked
from nrs._util.progress import Bar
from nrs._version import __version__
from nrs.datasets.entry import check_count
from nrs.datasets.errors import DownloadError, EntryError, UnreachableError

_log = logging.getLogger(__name__)
_CHUNK = 1 << 18
# Without a network a user should know what to do within two seconds.
CONNECT_TIMEOUT = 1.5
READ_TIMEOUT = 20.0
ATTEMPTS = 3
# A download may take GRACE_SECONDS, and a second more for each MIN_RATE bytes that have come in.
GRACE_SECONDS = 120.0
MIN_RATE = 16 << 10


class _CutError(Exception):
    """The transfer ended early; what has come in is kept."""


class _Clock:
    """The time that a download has left, however slowly its bytes trickle in."""

    def __init__(self) -> None:
        self._start, self.received = time.monotonic(), 0

    def left(self) -> float:
        allowed = GRACE_SECONDS + self.received / MIN_RATE
        return self._start + allowed - time.monotonic()

    @contextlib.contextmanager
    def cutting(self, response: http.client.HTTPResponse) -> Iterator[None]:
        """Within the block, shut the connection down once no time is left.

        A timeout of the socket is one for each read, and a read may take many.
        """
        ended = threading.Event()
        try:
            # A copy, since shutting down acts on the connection, and the response closes its own.
            connection = socket.socket(fileno=os.dup(response.fileno()))
        except (OSError, ValueError, AttributeError):  # An empty answer is closed already.
            yield
            return

        def watch() -> None:
            with connection:
                while not ended.wait(max(self.left(), 0.0)):
                    if self.left() <= 0:
                        with contextlib.suppress(OSError):
                            connection.shutdown(socket.SHUT_RDWR)
                        return

        threading.Thread(target=watch, daemon=True, name="nrs-clock").start()
        try:
            yield
        finally:
            ended.set()


class _SameSchemeRedirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects, but never from https to something weaker."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme not in ("http", "https") or (req.type == "https" and scheme != "https"):
            raise UnreachableError(f"{req.full_url} redirects to {newurl}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(
    url: str,
    target: Path,
    *,
    limit: int,
    size: int | None = None,
    checksum: str | None = None,
    opener: urllib.request.OpenerDirector | None = None,
) -> Path:
    """Download a file, or refuse it.

    What came in before a cut is kept next to the target and resumed, in this call or a later one,
    if the server still offers the same file (by its ETag and date). All of it may take
    `GRACE_SECONDS`, and a second more for each `MIN_RATE` bytes.

    Parameters
    ----------
    url : str
        An http or https address.
    target : Path
        Where the whole and checked file will be.
    limit : int
        Most bytes to accept.
    size : int, optional
        The exact number of bytes, where known.
    checksum : str, optional
        ``"sha256:…"`` or ``"md5:…"``.
    opener : urllib opener, optional
        In place of one that follows redirects and the environment's proxies.

    Raises
    ------
    UnreachableError
        If the address does not answer (within two seconds), or does not have the file.
    EntryError
        If the limit, the size or the checksum cannot be one.
    DownloadError
        If anything else goes wrong (all the others are of this kind, too): the transfer was cut
        again and again, or too slow, the file is too large, of another size or altered, or cannot
        be written. ``target`` is not touched.
    """
    _check_expected(limit, size, checksum)
    try:
        return _fetch(url, target, opener, limit=limit, size=size, checksum=checksum)
    except DownloadError:
        raise
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DownloadError(f"{url} cannot be downloaded to {target}: {_reason(error)}") from error


def _check_expected(limit: int, size: int | None, checksum: str | None) -> None:
    for name, value in (("limit", limit), ("size", size)):
        if value is not None:
            check_count(name, value)
    algorithm, _, digest = (checksum or "sha256:00").partition(":")
    if algorithm not in ("sha256", "md5") or not re.fullmatch(r"[0-9a-fA-F]+", digest):
        raise EntryError(f"checksum must be 'sha256:…' or 'md5:…'; got {checksum!r}")


def _fetch(
    url: str,
    target: Path,
    opener: urllib.request.OpenerDirector | None,
    *,
    limit: int,
    size: int | None,
    checksum: str | None,
) -> Path:
    _require_reachable(url)
    target.parent.mkdir(parents=True, exist_ok=True)
    opener = opener or urllib.request.build_opener(_SameSchemeRedirects)
    _log.info("fetching %s", url)
    clock = _Clock()
    with _partial_file(target) as partial:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                _transfer(url, partial, opener, clock, limit=limit, size=size)
                break
            except _CutError as cut:
                _log.info("%s was cut off (%s), attempt %d of %d", url, cut, attempt, ATTEMPTS)
                if clock.left() <= 0:
                    raise DownloadError(
                        f"{url} is too slow: {clock.received:,} bytes came in within the time "
                        "limit. Try again later; the download resumes from there."
                    ) from None
                if attempt == ATTEMPTS:
                    raise DownloadError(
                        f"{url} could not be downloaded: {cut}. Try again; the download resumes "
                        "from there."
                    ) from None
        try:
            check_file(partial, url, size=size, checksum=checksum)
        except DownloadError:
            _forget(partial)
            raise
        os.replace(partial, target)
        _forget(partial)
    return target


def check_file(path: Path, name: str, *, size: int | None, checksum: str | None) -> None:
    """Refuse a file of another size or content.

    Raises
    ------
    DownloadError
        If the size or the checksum is not the one given.
    """
    found = path.stat().st_size
    if size is not None and found != size:
        raise DownloadError(
            f"{name} must have {size:,} bytes; it has {found:,}. It was truncated or replaced, "
            "and is not used."
        )
    if checksum is None:
        return
    algorithm, _, expected = checksum.partition(":")
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, algorithm).hexdigest()
    if digest != expected.lower():
        raise DownloadError(
            f"{name} must have the {algorithm} checksum {expected}; it has {digest}. It was "
            "altered or replaced, and is not used."
        )


def _transfer(
    url: str,
    partial: Path,
    opener: urllib.request.OpenerDirector,
    clock: _Clock,
    *,
    limit: int,
    size: int | None,
) -> None:
    """Fetch what is missing of the partial file; raise _CutError if the server stops early."""
    state = _read_state(partial, url)
    done = partial.stat().st_size if state else 0
    if state and done == state.get("total"):
        return
    headers = {"User-Agent": f"nrs/{__version__}", "Accept-Encoding": "identity"}
    if state and done:
        headers |= {"Range": f"bytes={done}-", "If-Range": state["validator"]}
    try:
        response = _answer(urllib.request.Request(url, headers=headers), opener, clock)
    except _CannotResumeError:
        _forget(partial)
        raise _CutError("the server cannot resume where it was cut") from None
    with response, clock.cutting(response):
        if response.status == 206:
            if not _continues(response.headers, done, state):
                _forget(partial)
                raise _CutError("the server sent another file or part than was asked for")
        else:
            done = 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length and re.fullmatch("[0-9]{1,18}", length) else None
        if total is not None and (total > limit or (size is not None and total != size)):
            _forget(partial)
            raise _wrong_size(url, total, limit, size)
        if not done:
            # Before the state of this file, which would vouch for bytes of another.
            partial.write_bytes(b"")
        _write_state(partial, url, response.headers, total)
        with (
            open(partial, "ab" if done else "wb") as file,
            Bar(partial.name.split(".part")[0], total, done, kind="bytes") as bar,
        ):
            while block := _read(response):
                done += len(block)
                clock.received += len(block)
                if done > limit or (size is not None and done > size):
                    file.close()
                    _forget(partial)
                    raise _wrong_size(url, done, limit, size)
                file.write(block)
                bar.update(advance=len(block))
            file.flush()
            os.fsync(file.fileno())
    if total is not None and done < total:
        raise _CutError(f"it ended after {done:,} of {total:,} bytes")
    if total is None and clock.left() <= 0:
        # Without a length, a connection that was shut down looks like the end of the file.
        raise _CutError("the time is up")


class _CannotResumeError(Exception):
    """The server does not have the part that was asked for."""


def _answer(
    request: urllib.request.Request, opener: urllib.request.OpenerDirector, clock: _Clock
) -> http.client.HTTPResponse:
    """Open an address; bounded in time, although headers may trickle in byte by byte."""
    url = request.full_url
    found: list[http.client.HTTPResponse | BaseException] = []

    def ask() -> None:
        try:
            found.append(opener.open(request, timeout=READ_TIMEOUT))
        except BaseException as error:
            found.append(error)

    if not _within(max(min(clock.left(), 2 * READ_TIMEOUT), 0.0), ask):
        raise UnreachableError(f"{url} did not answer in time")
    answer = found[0]
    if isinstance(answer, urllib.error.HTTPError):
        answer.close()
        if answer.code == 416:
            raise _CannotResumeError
        raise UnreachableError(f"{url} answered {answer.code} {answer.reason}")
    if isinstance(answer, UnreachableError):
        raise answer
    if isinstance(answer, (OSError, ValueError, http.client.HTTPException)):
        raise UnreachableError(f"{url} did not answer ({_reason(answer)})")
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _within(seconds: float, call: Callable[[], None]) -> bool:
    """Whether a call ends in time. If not, it is left to itself: a look-up knows no timeout."""
    thread = threading.Thread(target=call, daemon=True, name="nrs-download")
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def _read(response: Any) -> bytes:
    try:
        return response.read1(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(_reason(error)) from None


def _wrong_size(url: str, found: int, limit: int, size: int | None) -> DownloadError:
    expected = f"have {size:,} bytes" if size is not None else f"have at most {limit:,} bytes"
    return DownloadError(
        f"{url} must {expected}; it has {found:,} or more. It was replaced or truncated, and is "
        "not used."
    )


def _continues(headers: Message, done: int, state: dict[str, Any] | None) -> bool:
    """Whether a part follows what is there, and is of the same file."""
    found = headers.get("Content-Range") or ""
    match = re.fullmatch(r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18}|\*)", found)
    if state is None or match is None or int(match[1]) != done:
        return False
    # A server may leave one out of a part, but not send another one.
    for name in ("ETag", "Last-Modified"):
        if headers.get(name) not in (None, state.get(name)):
            return False
    total = state.get("total")
    return match[2] == "*" or total is None or int(match[2]) == total


def _state_file(partial: Path) -> Path:
    return partial.with_name(partial.name + ".json")


def _read_state(partial: Path, url: str) -> dict[str, Any] | None:
    """What is known of a partial file, or None if it cannot be resumed."""
    try:
        state = json.loads(_state_file(partial).read_text("utf-8"), parse_constant=_no_number)
        usable = partial.is_file() and state["url"] == url and isinstance(state["validator"], str)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return state if usable else None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _write_state(partial: Path, url: str, headers: Message, total: int | None) -> None:
    etag = headers.get("ETag")
    # A weak ETag does not promise the same bytes.
    validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")
    both = {name: headers.get(name) for name in ("ETag", "Last-Modified")}
    facts = {"url": url, "validator": validator, "total": total} | both
    _state_file(partial).write_text(json.dumps(facts), "utf-8")


def _forget(partial: Path) -> None:
    partial.unlink(missing_ok=True)
    _state_file(partial).unlink(missing_ok=True)


@contextlib.contextmanager
def _partial_file(target: Path) -> Iterator[Path]:
    """The partial file of a target; one of our own if another process is writing that."""
    partial = target.with_name(target.name + ".part")
    with locked(target.with_name(target.name + ".lock")) as ours:
        if ours:
            yield partial
            return
        # Without locks it is never shared, hence never resumed.
        partial = partial.with_name(f"{partial.name}-{secrets.token_hex(8)}")
        try:
            yield partial
        finally:
            _forget(partial)


def _require_reachable(url: str) -> None:
    """Fail at once where there is no network: name look-up alone can take many seconds."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UnreachableError(f"The address must begin with http:// or https://; got {url}")
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.hostname):
        parts = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    failure: list[object] = ["no answer in time"]

    def probe() -> None:
        try:
            socket.create_connection((host, port), timeout=CONNECT_TIMEOUT).close()
            failure.clear()
        except OSError as error:
            failure[0] = _reason(error)

    if not _within(CONNECT_TIMEOUT, probe) or failure:
        raise UnreachableError(f"{host} cannot be reached ({failure[0]})")


def _reason(error: BaseException) -> str:
    return str(getattr(error, "reason", None) or error) or type(error).__name__
