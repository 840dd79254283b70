"""Malformed, huge, slow and hostile requests to ``nrs serve``, in a process of its own.

Laws: every answer has status 200, 4xx or 503; the service runs on; a good request in between gets
the answer that it got before the first bad one, bit by bit; its memory ends where it was after the
first cases.
"""

from __future__ import annotations

import atexit
import functools
import json
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.fuzz.forged import pick
from benchmarks.fuzz.run import BrokenLawError
from nrs import NRSClassifier
from nrs._util.launch import end, launch

# Requests of a case; memory that the service may take beyond that after the first cases.
REQUESTS = 100
WARM_UP, MAX_GROWTH = 500, 128 << 20
# Limits of the service, which requests go beyond.
MAX_BYTES, MAX_ROWS, TIMEOUT = 1_000_000, 1_000, 0.5
_SERVER = """
import sys
from nrs._util.launch import end_with_parent
from nrs.serve import Limits, serve
end_with_parent()
limits = Limits(max_bytes=int(sys.argv[2]), max_rows=int(sys.argv[3]), timeout=float(sys.argv[4]))
serve(sys.argv[1], port=0, limits=limits, started=lambda url: print(url, flush=True))
"""
# Cells of JSON that few expect.
_CELLS = [
    "null", "true", "-0", "1e999", "-1e999", "NaN", "Infinity", "9" * 400, "1e-400", '""', "[]",
    "{}", '"\\u0000"', '"\\ud800"', "[[[[1]]]]", '{"a": {"b": 1}}', '"' + "x" * 9000 + '"', "0x10",
    '"9999-99-99"', '"0001-01-01T00:00:00+14:00"', '"9999-12-31T23:59:59-14:00"', "1e17", "-1e17",
    '"=cmd()"', '"__import__(\'os\').abort()"', '"\\"; DROP TABLE rows"', '"١٢٣"',
]  # fmt: skip
_ARROW = "application/vnd.apache.arrow.stream"


def draw_rows(rng: np.random.Generator, n: int) -> list[dict[str, Any]]:
    """Rows as the model of this fuzzer knows them."""
    return [
        {
            "n": float(rng.normal()),
            "flag": bool(rng.random() < 0.5),
            "city": pick(rng, ["Oslo", "Rome", None]),
            "day": pick(rng, ["2024-05-01", "2024-06-30T12:00:00", None]),
        }
        for _ in range(n)
    ]


class Service:
    """A service and what it must keep to."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "model.safetensors"
        rng = np.random.default_rng(0)
        table = as_arrow(draw_rows(rng, 100))
        model = NRSClassifier(preset="fast", epochs=2, random_state=0, verbose=0)
        model.fit(table, rng.random(100) < 0.5).save(path)
        self._process = launch(_SERVER, path, MAX_BYTES, MAX_ROWS, TIMEOUT, stdout=subprocess.PIPE)
        line = self._process.stdout.readline().decode()  # type: ignore[union-attr]
        self.address = "127.0.0.1", int(line.rpartition(":")[2])
        self.n_requests, self.memory = 0, 0
        self._good = request(json.dumps({"rows": draw_rows(rng, 3)}).encode())
        self.expected = self.send(self._good)

    def close(self) -> None:
        end(self._process)
        self._folder.cleanup()

    def send(self, content: bytes, *, wait: float = 10.0, keep: bool = True) -> bytes:
        """What comes back until an answer is complete, the connection closes or it is too late.

        Without `keep` nothing is waited for.
        """
        self.n_requests += 1
        with socket.create_connection(self.address, timeout=wait) as connection:
            try:
                connection.sendall(content)
                return _read(connection) if keep else b""
            except (ConnectionError, TimeoutError):
                return b""

    def check(self) -> None:
        """Raise if the service has ended, answers another thing or holds on to memory."""
        if self._process.poll() is not None:
            raise BrokenLawError(f"the service has ended with {self._process.returncode}")
        for _ in range(20):
            answer = self.send(self._good)
            if status_of(answer) != "503":
                break
            time.sleep(0.2)
        if _body(answer) != _body(self.expected):
            raise BrokenLawError(f"a good request got {answer[:300]!r}")
        taken = resident_memory(self._process.pid)
        if self.n_requests < WARM_UP or not self.memory:
            self.memory = max(self.memory, taken)
        elif taken > self.memory + MAX_GROWTH:
            raise BrokenLawError(f"grew from {self.memory >> 20} to {taken >> 20} MB")


def _read(connection: socket.socket) -> bytes:
    """One answer."""
    found = b""
    while b"\r\n\r\n" not in found:
        part = connection.recv(1 << 16)
        if not part:
            return found
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    length = next(
        (
            int(line[15:])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        ),
        0,
    )
    while len(body) < length and (part := connection.recv(1 << 16)):
        body += part
    return head + b"\r\n\r\n" + body


def _body(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def status_of(answer: bytes) -> str:
    """The status of an answer, "none" where nothing came."""
    parts = answer.split(b" ", 2)
    return parts[1].decode() if len(parts) > 1 else "none"


def resident_memory(process: int) -> int:
    """Bytes of memory that a process has."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) << 10
    return 0


def request(
    body: bytes,
    kind: str = "application/json",
    path: str = "/predict",
    *more: str,
    length: Any = None,
) -> bytes:
    """A request with a body."""
    lines = [
        f"POST {path} HTTP/1.1", "Host: x", f"Content-Type: {kind}",
        f"Content-Length: {len(body) if length is None else length}", *more, "", "",
    ]  # fmt: skip
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + body


def as_arrow(rows: list[dict[str, Any]]) -> pa.Table:
    table = pa.Table.from_pylist(rows)
    days = pa.array(
        [None if row["day"] is None else np.datetime64(row["day"], "s") for row in rows]
    )
    return table.set_column(3, "day", days)


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """The bytes with a few changed, left out, put in or repeated."""
    found = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        first, last = sorted(int(place) for place in rng.integers(0, len(found) + 1, 2))
        last = min(last, first + int(rng.integers(1, 9)))
        chance = rng.integers(5)
        if chance == 0:
            del found[first:last]
        elif chance == 1:
            found[first:first] = rng.bytes(last - first)
        elif chance == 2:
            found[first:last] = pick(rng, [b"\xff" * 8, b"\0" * 4, b"[", b'"', b"1e999", b"\x7f"])
        elif chance == 3:
            del found[first:]
        else:
            found[first:last] = rng.bytes(last - first)
        if not found:
            break
    return bytes(found)


def draw_json(rng: np.random.Generator) -> bytes:
    """A body of JSON that is wrong in some way, or large, or only odd."""
    rows = draw_rows(rng, int(rng.integers(1, 4)))
    good = json.dumps({"rows": rows})
    chance = rng.integers(9)
    if chance <= 2:
        names = [*rows[0], "unknown", "n"]
        cells = ", ".join(f'"{name}": {pick(rng, _CELLS)}' for name in rng.permutation(names))
        return f'{{"rows": [{{{cells}}}]}}'.encode()
    if chance <= 4:
        return damaged(rng, good.encode())
    if chance == 5:
        depth = int(rng.integers(1, 100_000))
        return pick(
            rng, [b"[" * depth, b'{"rows":' * (depth // 8), b'{"rows":[{"n":' + b"[" * depth]
        )
    if chance == 6:
        n = pick(rng, [0, MAX_ROWS, MAX_ROWS + 1, 5 * MAX_ROWS])
        return json.dumps({"rows": rows[:1] * n}).encode()
    if chance == 7:
        return pick(
            rng, [b"{}," * 300_000, b'{"rows":[' + b"{}," * 300_000 + b"{}]}", b"0" * 900_000]
        )
    wide = {f"c{k}": k for k in range(int(rng.integers(1, 20_000)))}
    return json.dumps({"rows": [rows[0] | wide], **wide}).encode()


def draw_arrow(rng: np.random.Generator) -> bytes:
    """A body of Arrow that is wrong in some way, or only odd."""
    table = as_arrow(draw_rows(rng, int(rng.integers(1, 40))))
    chance = rng.integers(6)
    if chance <= 2:
        return damaged(rng, stream(table))
    if chance == 3:
        return stream(table, pick(rng, ["zstd", "lz4"]))
    n, place = len(table), int(rng.integers(table.num_columns))
    columns: list[Callable[[], Any]] = [
        lambda: pa.array([[1]] * n), lambda: pa.nulls(n), lambda: pa.array(["x" * 2000] * n),
        lambda: pa.array([1e308] * n), lambda: pa.array([b"\xff\xfe"] * n),
        lambda: pa.array([2**62] * n, pa.timestamp("s")), lambda: pa.array(["1"] * n),
        lambda: pa.array([-(2**62)] * n, pa.duration("s")), lambda: pa.array([{"a": 1}] * n),
        lambda: pa.array(["a"] * n, pa.string_view()),
        lambda: pa.array(["a"] * n).dictionary_encode(),
        lambda: pa.RunEndEncodedArray.from_arrays([n], pa.array(["a"])),
        lambda: pa.array([2**63] * n, pa.uint64()),
    ]  # fmt: skip
    name = pick(rng, [table.column_names[place], "n", "unknown", ""])
    table = table.set_column(place, name, pick(rng, columns)())
    if chance == 5:
        metadata = {pick(rng, [b"nrs", b"pandas", b"ARROW:extension:name"]): rng.bytes(20)}
        table = table.replace_schema_metadata(metadata)
        table = pa.concat_tables([table] * int(rng.integers(1, 60)))
    return stream(table)


def draw_head(rng: np.random.Generator) -> bytes:
    """A request whose head is wrong, or lies about the body."""
    body = json.dumps({"rows": draw_rows(rng, 1)}).encode()
    good = request(body)
    chance = rng.integers(8)
    if chance == 0:
        length = pick(rng, [-1, 0, 1, len(body) - 1, MAX_BYTES + 1, 10**30, "x", "1, 2", ""])
        return request(body, length=length)
    if chance == 1:
        return rng.bytes(int(rng.integers(1, 5000)))
    if chance == 2:
        return damaged(rng, good)
    if chance == 3:
        return request(
            body, pick(rng, ["text/plain", "", "application/json; " + "x" * 9000, "\udcff"])
        )
    if chance == 4:
        query = pick(
            rng,
            ["interval=nan", "sets=1e999", "sets=0.9", "probabilities=2", "%00=%ff", "&" * 5000],
        )
        return request(body, "application/json", f"/predict?{query}")
    if chance == 5:
        path = pick(
            rng,
            [
                "/",
                "/../../etc/passwd",
                "/predict/" + "a" * 30_000,
                "/docs",
                "/%ff",
                "*",
                "/predict#",
            ],
        )
        method = pick(rng, ["GET", "DELETE", "TRACE", "OPTIONS", "BREW"])
        return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    if chance == 6:
        lines = [f"X-{k}: {'y' * int(rng.integers(2000))}" for k in range(int(rng.integers(100)))]
        return request(body, "application/json", "/predict", *lines)
    chunk = pick(rng, [b"zz\r\n", b"-1\r\n", b"5\r\nab", b"ffffffffffffffff\r\na", b"0\r\n\r\n"])
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk


def hostile(rng: np.random.Generator, service: Service) -> str:
    """Send one request and return what became of it; raises if a law is broken."""
    chance, keep = rng.random(), True
    if chance < 0.4:
        kind, content = "json", request(draw_json(rng))
    elif chance < 0.7:
        kind, content = "arrow", request(draw_arrow(rng), _ARROW)
    elif chance < 0.9:
        kind, content = "head", draw_head(rng)
    elif chance < 0.92:
        kind, content = "large", request(b" " * int(rng.integers(MAX_BYTES, 4 * MAX_BYTES)))
    elif chance < 0.925:
        # The rest never comes.
        kind, content = "slow", request(draw_json(rng))[: int(rng.integers(60, 120))]
    else:
        kind, content, keep = "gone", request(draw_json(rng)), False
        content = content[: int(rng.integers(len(content) + 1))]
    answer = service.send(content, wait=1.5 * TIMEOUT, keep=keep)
    status = status_of(answer)
    if status not in ("none", "200", "503") and not status.startswith("4"):
        raise BrokenLawError(f"{kind} got {answer[:300]!r} for {content[:300]!r}")
    return f"{kind} {status}"


@functools.cache
def service() -> Service:
    """The service of all cases of this process."""
    found = Service()
    atexit.register(found.close)
    return found


def case(rng: np.random.Generator) -> Counter[str]:
    """Send some requests, and count the answers by status."""
    counts: Counter[str] = Counter()
    for _ in range(REQUESTS):
        counts[hostile(rng, service())] += 1
        counts["requests"] += 1
    service().check()
    return counts
