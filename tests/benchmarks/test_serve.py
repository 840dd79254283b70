"""The load of the benchmark of services, on one that answers at once."""

import asyncio
import sys

import pytest

from benchmarks import serve


def answering(status=b"200 OK"):
    async def handle(reader, writer):
        while head := await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(int(head.partition(b"Content-Length: ")[2]))
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\n{}")

    return asyncio.start_server(handle, "127.0.0.1", 0)


def measured(function, *arguments, **answer):
    async def run():
        server = await answering(**answer)
        async with server:
            return await function(server.sockets[0].getsockname()[1], *arguments)

    return asyncio.run(run())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_requests_arrive_evenly_and_are_timed():
    frame, _ = serve.make_rows(3, seed=0)
    contents = [serve.bodies(frame, "nrs"), serve.arrow_body(frame)] * 15
    times = measured(serve.times_at, contents, 300.0)
    assert len(times) == 30
    assert all(0 < one < 5 for one in times)
    assert measured(serve.rows_per_second, contents[0], 5) > 0
    with pytest.raises(RuntimeError, match="503"):
        measured(serve.times_at, contents, 300.0, status=b"503 Busy")


def test_ratios_are_those_of_the_targets():
    sides = {
        "nrs": {
            "p50_ms": 2.0, "p99_ms": 9.0, "cpu_ms": 1.0, "arrow_rows_per_second": 80.0,
            "json_rows_per_second": 60.0, "arrow_cpu_ms": 5.0, "json_cpu_ms": 8.0,
        },
        "bare": {"p50_ms": 4.0, "p99_ms": 6.0, "cpu_ms": 2.0},
        "in process": {"rows_per_second": 100.0, "cpu_ms": 4.0},
    }  # fmt: skip
    assert list(serve.ratios(sides).values()) == [0.5, 0.5, 1.5, 0.8, 0.6, 0.8, 0.5]


def test_a_server_that_ends_is_said():
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    with pytest.raises(RuntimeError, match="ended with 3"), serve.running(command, 9, "/"):
        pass
