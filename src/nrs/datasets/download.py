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
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nrs._util.lock import locked
from nrs._util.progress import Bar
from nrs._version import __version__
from nrs.datasets.errors import DownloadError, UnreachableError

_log = logging.getLogger(__name__)
_CHUNK = 1 << 18
# Without a network a user should be told what to do within two seconds.
CONNECT_TIMEOUT = 1.5
READ_TIMEOUT = 20.0
ATTEMPTS = 3


class _CutError(Exception):
    """The transfer ended early; what has come in is kept."""


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

    What came in before a cut is kept beside the target and taken up again, in this call or a
    later one, if the server still offers the same file (by its ETag or date).

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
    DownloadError
        If the transfer was cut again and again, or the file is too large, of another size or
        altered. ``target`` is not touched.
    """
    _require_reachable(url)
    target.parent.mkdir(parents=True, exist_ok=True)
    opener = opener or urllib.request.build_opener(_SameSchemeRedirects)
    _log.info("fetching %s", url)
    with _partial_file(target) as partial:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                _transfer(url, partial, opener, limit=limit, size=size)
                break
            except _CutError as cut:
                _log.info("%s was cut off (%s), attempt %d of %d", url, cut, attempt, ATTEMPTS)
                if attempt == ATTEMPTS:
                    raise DownloadError(
                        f"{url} must come in whole, however: {cut}; try again, it will go on from "
                        "there"
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
            f"{name} must have {size:,} bytes, however: it has {found:,}; it was truncated or "
            "replaced, and is not used"
        )
    if checksum is None:
        return
    algorithm, _, expected = checksum.partition(":")
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, algorithm).hexdigest()
    if digest != expected.lower():
        raise DownloadError(
            f"{name} must have the {algorithm} checksum {expected}, however: it has {digest}; it "
            "was altered or replaced, and is not used"
        )


def _transfer(
    url: str,
    partial: Path,
    opener: urllib.request.OpenerDirector,
    *,
    limit: int,
    size: int | None,
) -> None:
    """Bring in what is missing of the partial file; raise _CutError if the server stops early."""
    state = _read_state(partial, url)
    done = partial.stat().st_size if state else 0
    if state and done == state.get("total"):
        return
    headers = {"User-Agent": f"nrs/{__version__}", "Accept-Encoding": "identity"}
    if state and done:
        headers |= {"Range": f"bytes={done}-", "If-Range": state["validator"]}
    request = urllib.request.Request(url, headers=headers)
    try:
        response = opener.open(request, timeout=READ_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:
            _forget(partial)
            raise _CutError("the server cannot go on from where it was cut") from None
        raise UnreachableError(f"{url} answered {error.code} {error.reason}") from None
    except UnreachableError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"{url} did not answer ({_reason(error)})") from None
    with response:
        if response.status == 206:
            if not _continues(response.headers.get("Content-Range"), done, state):
                _forget(partial)
                raise _CutError("the server sent another part than was asked for")
        else:
            done = 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length and length.isdigit() else None
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


def _read(response: Any) -> bytes:
    try:
        return response.read1(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(_reason(error)) from None


def _wrong_size(url: str, found: int, limit: int, size: int | None) -> DownloadError:
    expected = f"have {size:,} bytes" if size is not None else f"have at most {limit:,} bytes"
    return DownloadError(
        f"{url} must {expected}, however: it has {found:,} or more; it was replaced or truncated, "
        "and is not used"
    )


def _continues(content_range: str | None, done: int, state: dict[str, Any] | None) -> bool:
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", content_range or "")
    if match is None or int(match[1]) != done:
        return False
    total = (state or {}).get("total")
    return match[2] == "*" or total is None or int(match[2]) == total


def _state_file(partial: Path) -> Path:
    return partial.with_name(partial.name + ".json")


def _read_state(partial: Path, url: str) -> dict[str, Any] | None:
    """Give what is known of a partial file, or None if it cannot be taken up."""
    try:
        state = json.loads(_state_file(partial).read_text("utf-8"))
        usable = partial.is_file() and state["url"] == url and isinstance(state["validator"], str)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return state if usable else None


def _write_state(partial: Path, url: str, headers: Any, total: int | None) -> None:
    etag = headers.get("ETag")
    # A weak ETag does not promise the same bytes.
    validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")
    facts = {"url": url, "validator": validator, "total": total}
    _state_file(partial).write_text(json.dumps(facts), "utf-8")


def _forget(partial: Path) -> None:
    partial.unlink(missing_ok=True)
    _state_file(partial).unlink(missing_ok=True)


@contextlib.contextmanager
def _partial_file(target: Path) -> Iterator[Path]:
    """Give the partial file of a target; one of our own if another process is writing that."""
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
        raise UnreachableError(f"the address must begin with http:// or https://, however: {url}")
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

    # In a thread, as a name look-up knows no timeout.
    thread = threading.Thread(target=probe, daemon=True, name="nrs-probe")
    thread.start()
    thread.join(CONNECT_TIMEOUT)
    if failure:
        raise UnreachableError(f"{host} cannot be reached ({failure[0]})")


def _reason(error: BaseException) -> str:
    return str(getattr(error, "reason", None) or error) or type(error).__name__
