"""What a request costs ``nrs serve``, compared with bare handlers around the same model.

    python -m benchmarks.serve --json results/serve.json [--mlflow PYTHON]

Sides, each a server in a process of its own on the loopback interface, all of one model of the
default settings with one thread:

- *nrs*: ``nrs serve``;
- *bare*: a FastAPI handler of three lines, `predict_proba` of a pandas frame, by the same uvicorn;
- *mlflow*: ``mlflow models serve`` of what `nrs.mlflow.save_model` wrote, if an interpreter that
  has MLflow is named.

One row at a time: requests arrive evenly at `--rate` per second, whether or not earlier ones are
answered, and a time is from when a request was due to its last byte. Batches of 1,000 rows: one
after the other, in JSON and (nrs) in Arrow; *in process* is `predict_proba` of the same frame.
Processor time is that of the server alone, which a busy machine does not change much. Sides take
turns, round after round, and a figure is the median over the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import ROOT, provenance, table, write_json
from benchmarks.predict_file import make_rows
from nrs._util.optional import import_optional

# What must hold: times of one row as a multiple of the bare handler's, rows per second as a share
# of those in process.
TIME_TARGET, ROWS_TARGET = 1.3, 0.5
BATCH, WARM_UP = 1_000, 20
ARROW = "application/vnd.apache.arrow.stream"

_BARE = """
import sys
import fastapi, pandas, uvicorn
from pydantic import BaseModel
from nrs import NRSClassifier

model = NRSClassifier.load(sys.argv[1])
app = fastapi.FastAPI()

class Body(BaseModel):
    rows: list[dict]

@app.post("/predict")
def predict(body: Body):
    return {"predictions": model.predict_proba(pandas.DataFrame(body.rows)).tolist()}

@app.get("/healthz")
def healthz():
    return "ok"

uvicorn.run(app, port=int(sys.argv[2]), log_level="error", access_log=False)
"""


class Server(NamedTuple):
    """A process that answers at a port."""

    port: int
    process: Any  # of psutil

    def cpu(self) -> float:
        """Processor seconds of the process and its children so far."""
        own = [self.process, *self.process.children(recursive=True)]
        return sum(sum(one.cpu_times()[:2]) for one in own)


@contextlib.contextmanager
def running(command: list[str], port: int, path: str) -> Iterator[Server]:
    """A server that answers, ended with its children at the end of the block."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{Path(command[0]).parent}{os.pathsep}{environment['PATH']}"
    process = subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5).close()
                break
            if process.poll() is not None:
                raise RuntimeError(f"{command[:4]} ended with {process.returncode}")
            time.sleep(0.2)
        psutil = import_optional("psutil", "benchmarks.serve", "peers")
        yield Server(port, psutil.Process(process.pid))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def request(path: str, body: bytes, kind: str = "application/json") -> bytes:
    """A request of HTTP."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Client:
    """Connections to one server that are used again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, content: bytes) -> bytes:
        """The body of the answer; raises if its status is not 200."""
        if not self._idle:
            self._idle.append(await asyncio.open_connection("127.0.0.1", self._port))
        reader, writer = connection = self._idle.pop()
        writer.write(content)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(head.decode())
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        self._idle.append(connection)
        return body

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()


async def times_at(port: int, contents: list[bytes], rate: float) -> list[float]:
    """Seconds from when each request was due to its answer; requests arrive evenly."""
    client, loop = Client(port), asyncio.get_running_loop()
    for content in contents[:WARM_UP]:
        await client.send(content)
    begin = loop.time() + 0.05

    async def one(number: int, content: bytes) -> float:
        due = begin + number / rate
        await asyncio.sleep(due - loop.time())
        await client.send(content)
        return loop.time() - due

    found = await asyncio.gather(*(one(k, content) for k, content in enumerate(contents)))
    client.close()
    return found


async def rows_per_second(port: int, content: bytes, n: int) -> float:
    """Rows answered per second, batch after batch."""
    client = Client(port)
    await client.send(content)
    begin = time.perf_counter()
    for _ in range(n):
        await client.send(content)
    client.close()
    return n * BATCH / (time.perf_counter() - begin)


def bodies(frame: Any, side: str) -> bytes:
    """The request that asks a side for the rows of a frame, in JSON."""
    if side == "mlflow":
        split = json.loads(frame.to_json(orient="split", index=False))
        return request("/invocations", json.dumps({"dataframe_split": split}).encode())
    return request("/predict", json.dumps({"rows": frame.to_dict("records")}).encode())


def arrow_body(frame: Any) -> bytes:
    import pyarrow as pa

    rows, sink = pa.Table.from_pandas(frame, preserve_index=False), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return request("/predict", sink.getvalue().to_pybytes(), ARROW)


def in_process(model: Any, frame: Any, n: int) -> float:
    """Rows per second of `predict_proba`."""
    model.predict_proba(frame)
    begin = time.perf_counter()
    for _ in range(n):
        model.predict_proba(frame)
    return n * BATCH / (time.perf_counter() - begin)


def measure(
    rounds: int, requests: int, rate: float, batches: int, mlflow: str | None
) -> dict[str, dict[str, float]]:
    """All figures of each side, the medians over the rounds."""
    from nrs import NRSClassifier

    frame, labels = make_rows(3000, seed=0)
    model = NRSClassifier(random_state=0).fit(frame[:2000], labels[:2000])
    found: dict[str, dict[str, list[float]]] = {}

    def note(side: str, **figures: float) -> None:
        for name, value in figures.items():
            found.setdefault(side, {}).setdefault(name, []).append(value)

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        path = str(Path(folder, "model.safetensors"))
        model.save(path)
        serve = [sys.executable, "-m", "nrs", "serve", path, "--port", "28471"]
        sides = {"nrs": (serve, 28471, "/healthz")}
        bare = [sys.executable, "-c", _BARE, path, "28472"]
        sides["bare"] = (bare, 28472, "/healthz")
        if mlflow:
            saved = str(Path(folder, "mlflow"))
            save = f"import nrs.mlflow as m; m.save_model(m.load_file({path!r}), {saved!r})"
            subprocess.run([mlflow, "-c", save], check=True, cwd=ROOT)
            served = [mlflow, "-m", "mlflow", "models", "serve", "-m", saved, "-p", "28473"]
            sides["mlflow"] = ([*served, "--env-manager", "local"], 28473, "/ping")
        servers = {name: stack.enter_context(running(*side)) for name, side in sides.items()}
        order = list(servers)
        for number in range(rounds):
            order.append(order.pop(0))
            rows = [frame.iloc[[2000 + (number + k) % 1000]] for k in range(requests)]
            for side in order:
                contents, server = [bodies(row, side) for row in rows], servers[side]
                before = server.cpu()
                times = np.array(asyncio.run(times_at(server.port, contents, rate)))
                cpu = (server.cpu() - before) / (len(contents) + WARM_UP)
                p50, p99 = 1000 * np.quantile(times, [0.5, 0.99])
                note(side, p50_ms=float(p50), p99_ms=float(p99), cpu_ms=1000 * cpu)
            batch = frame[2000:]
            asked = [(side, "json", bodies(batch, side)) for side in order]
            for side, form, content in [*asked, ("nrs", "arrow", arrow_body(batch))]:
                before = servers[side].cpu()
                speed = asyncio.run(rows_per_second(servers[side].port, content, batches))
                cpu = (servers[side].cpu() - before) / (batches + 1)
                note(side, **{f"{form}_rows_per_second": speed, f"{form}_cpu_ms": 1000 * cpu})
            before = time.process_time()
            speed = in_process(model, batch, batches)
            cpu = (time.process_time() - before) / (batches + 1)
            note("in process", rows_per_second=speed, cpu_ms=1000 * cpu)
    return {
        side: {name: round(statistics.median(values), 3) for name, values in figures.items()}
        for side, figures in found.items()
    }


def ratios(found: dict[str, dict[str, float]]) -> dict[str, float]:
    """The figures that have a target."""
    nrs, bare, process = found["nrs"], found["bare"], found["in process"]
    alone = process["rows_per_second"]
    return {
        "processor time / bare": nrs["cpu_ms"] / bare["cpu_ms"],
        "p50 / bare": nrs["p50_ms"] / bare["p50_ms"],
        "p99 / bare": nrs["p99_ms"] / bare["p99_ms"],
        "rows by Arrow / in process": nrs["arrow_rows_per_second"] / alone,
        "rows by JSON / in process": nrs["json_rows_per_second"] / alone,
        "rows by Arrow / in process, by processor time": process["cpu_ms"] / nrs["arrow_cpu_ms"],
        "rows by JSON / in process, by processor time": process["cpu_ms"] / nrs["json_cpu_ms"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=500, help="of one row, in each round")
    parser.add_argument("--rate", type=float, default=100.0, help="requests per second")
    parser.add_argument("--batches", type=int, default=20, help="of 1,000 rows, in each round")
    parser.add_argument("--mlflow", help="an interpreter that has MLflow and nrs")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    settings = (chosen.rounds, chosen.requests, chosen.rate, chosen.batches)
    found = measure(*settings, chosen.mlflow)
    print(table(["side", "figures"], [[side, json.dumps(one)] for side, one in found.items()]))
    quotients = {name: round(value, 3) for name, value in ratios(found).items()}
    print(json.dumps(quotients, indent=1))
    if chosen.json:
        names = ("rounds", "requests", "rate", "batches")
        used = dict(zip(names, settings, strict=True))
        write_json(chosen.json, provenance(**used) | {"sides": found, "ratios": quotients})
    held = max(quotients["p50 / bare"], quotients["p99 / bare"]) <= TIME_TARGET
    sys.exit(not (held and quotients["rows by Arrow / in process"] >= ROWS_TARGET))


if __name__ == "__main__":
    main()
