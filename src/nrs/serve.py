"""A saved model of tables behind HTTP: rows in, predictions out, by FastAPI and uvicorn.

``nrs serve MODEL`` runs it; :func:`create_app` is the application, for a server of your own.
Nothing that a request holds is executed. A request has a thread of a pool for reading its rows and
writing its answers; rows that wait for the network meanwhile go through it together
(:class:`nrs._util.batches.Batches`).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from nrs._util.batches import Batches
from nrs._util.optional import import_optional
from nrs._util.text import printable
from nrs._version import __version__
from nrs.files.load import load_model
from nrs.files.request_rows import CELLS, RequestRows, TooManyRowsError
from nrs.tabular.encode.column_encoder import Watch
from nrs.tabular.predict_file import (
    answer_columns,
    check_levels,
    model_rows,
    with_offset,
)

if TYPE_CHECKING:
    import fastapi
    import prometheus_client
    import pyarrow
    import pydantic_core
    import starlette.requests
    import uvicorn

    from nrs.tabular.types import TableModel
else:
    fastapi, starlette, uvicorn, pydantic_core, prometheus_client, pyarrow = (
        import_optional(module, "nrs serve", "serve")
        for module in (
            "fastapi", "starlette", "uvicorn", "pydantic_core", "prometheus_client", "pyarrow",
        )
    )  # fmt: skip

__all__ = ["Limits", "create_app", "serve"]

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
_Level = Annotated[float | None, fastapi.Query(gt=0, lt=1)]
# Seconds for the head of a request, connections at once, and those that wait to be accepted.
HEAD_SECONDS, MAX_CONNECTIONS, BACKLOG = 10.0, 512, 2048


@dataclass(frozen=True)
class Limits:
    """What one request may cost, and how many are taken at once.

    Parameters
    ----------
    max_bytes : int
        Size of a request's body.
    max_rows : int
        Rows of a request.
    timeout : float
        Seconds for the body to arrive and be answered.
    max_waiting : int
        Requests at once; further ones get status 503.
    threads : int
        Threads that read, predict and answer.
    """

    max_bytes: int = 8_000_000
    max_rows: int = 10_000
    timeout: float = 30.0
    max_waiting: int = 64
    threads: int = 8

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < math.inf:
                raise ValueError(f"{field.name} must be more than 0; got {value!r}")


class _RefusedError(Exception):
    """A request that is not answered, with its HTTP status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class Asked:
    """What a request wants of its rows, as the arguments of ``nrs predict``."""

    probabilities: bool = True
    interval: float | None = None
    sets: float | None = None
    arrow_in: bool = False
    arrow_out: bool = False


class Answers:
    """Bodies in, bodies out, by one model that many threads share.

    Raises
    ------
    ValueError
        From :meth:`answer`, if the rows cannot be read or answered as asked.
    """

    def __init__(self, model: TableModel, limits: Limits, metrics: Metrics) -> None:
        self.model, self.metrics = model, metrics
        self.reader = RequestRows(model, limits.max_rows)
        # Rankers scale rows by their query, and sparse features are no arrays.
        self._batched = hasattr(model, "predict_interval") or hasattr(model, "predict_proba")
        self._batched &= not model.encoder_.is_sparse_
        self._batches = Batches(model.forward, os.cpu_count() or 1, limits.max_rows)
        self.columns = self._tried()

    def _tried(self) -> dict[str, Any]:
        """The columns of an answer: a row without any cell is answered before the first request."""
        kinds, n_features = self.reader.kinds, self.model.n_features_in_
        cells = [pyarrow.nulls(1, CELLS[kind][1]()) for kind in kinds.values()]
        # A query or an offset must be there.
        cells[n_features:] = [
            pyarrow.array(["0" if kind == "category" else 0.0])
            for kind in list(kinds.values())[n_features:]
        ]
        return self._predict(pyarrow.table(dict(zip(kinds, cells, strict=True))), Asked())[0]

    def _predict(self, table: pyarrow.Table, asked: Asked) -> tuple[dict[str, np.ndarray], Watch]:
        model, watch, together = self.model, Watch(), 1
        X = model_rows(model, table.select(self.reader.features))
        if self._batched:
            features = model.encoder_.transform(model.read_table(X), watch)
            outputs, together = self._batches.forward(features)
        else:
            outputs = model.outputs(X, watch=watch)
        self.metrics.together.observe(together)
        added = table.columns[len(self.reader.features) :]
        outputs = with_offset(model, outputs, added)
        found = answer_columns(
            model, outputs, X, probabilities=asked.probabilities, interval=asked.interval,
            sets=asked.sets,
        )  # fmt: skip
        return found, watch

    def answer(self, body: bytes, asked: Asked) -> bytes:
        """The answer to the body of a request."""
        check_levels(self.model, asked.interval, asked.sets)
        table = self.reader.from_arrow(body) if asked.arrow_in else self.reader.from_json(body)
        found, watch = self._predict(table, asked)
        self.metrics.add(table.num_rows, watch, self.model.encoder_.column_names)
        if asked.arrow_out:
            answers = pyarrow.table(found)
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, answers.schema) as writer:
                writer.write_table(answers)
            return sink.getvalue().to_pybytes()
        names = list(found)
        rows = zip(*(values.tolist() for values in found.values()), strict=True)
        answered = {"predictions": [dict(zip(names, row, strict=True)) for row in rows]}
        return pydantic_core.to_json(answered, inf_nan_mode="null")


class Metrics:
    """What ``/metrics`` shows, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=registry)
        self.requests = prometheus_client.Counter(
            "nrs_requests", "Requests to /predict.", ["status"], registry=registry
        )
        self.seconds = prometheus_client.Histogram(
            "nrs_request_seconds", "From the head of a request to its answer.", registry=registry,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
        )  # fmt: skip
        self.waiting = prometheus_client.Gauge(
            "nrs_requests_waiting", "Requests that are not answered yet.", registry=registry
        )
        self.rows = prometheus_client.Counter("nrs_rows", "Rows answered.", registry=registry)
        self.together = prometheus_client.Histogram(
            "nrs_requests_together", "Requests that went through the network with this one.",
            registry=registry, buckets=(1, 2, 4, 8, 16, 32),
        )  # fmt: skip
        self.unusual = prometheus_client.Counter(
            "nrs_unusual_cells", "Cells far beyond the training range, or missing or unseen.",
            ["column", "what"], registry=registry,
        )  # fmt: skip

    def add(self, n_rows: int, watch: Watch, names: list[str]) -> None:
        """Count answered rows, and their cells that are unlike those of the training."""
        self.rows.inc(n_rows)
        for what, counts in (("far", watch.far), ("unknown", watch.unknown)):
            for column, count in (+counts).items():
                self.unusual.labels(names[column], what).inc(count)


class Service:
    """What FastAPI's routes call: bounds on size, time and number, around :class:`Answers`."""

    def __init__(self, model: TableModel, limits: Limits) -> None:
        self.limits, self.metrics = limits, Metrics()
        self.answers = Answers(model, limits, self.metrics)
        self.n_waiting, self._counting = 0, threading.Lock()

    @contextlib.asynccontextmanager
    async def running(self, app: fastapi.FastAPI) -> AsyncIterator[None]:
        """The threads, which end with the requests that they have begun."""
        with ThreadPoolExecutor(self.limits.threads, "nrs-serve") as self.pool:
            yield

    async def respond(self, request: fastapi.Request, asked: Asked) -> fastapi.Response:
        """Answer a request, whatever it holds."""
        began = time.perf_counter()
        try:
            if self.n_waiting >= self.limits.max_waiting:
                raise _RefusedError(503, "too many requests at once; try again")
            asked = _formats(asked, request.headers)
            status, content = await self._answer(request, asked)
        except _RefusedError as error:
            status, content = error.status, _reason(error)
        except starlette.requests.ClientDisconnect:
            status, content = 499, b""
        self.metrics.requests.labels(str(status)).inc()
        self.metrics.seconds.observe(time.perf_counter() - began)
        headers = {"Retry-After": "1"} if status == 503 else {}
        media_type = ARROW if status == 200 and asked.arrow_out else JSON
        return fastapi.Response(content, status, headers, media_type)

    def _attempt(self, body: bytes, asked: Asked) -> tuple[int, bytes]:
        """The status and the answer; in a thread.

        An error that went through a future would keep the body alive until the next collection of
        garbage: their frames hold each other.
        """
        try:
            return 200, self.answers.answer(body, asked)
        except TooManyRowsError as error:
            return 413, _reason(error)
        except (ValueError, TypeError) as error:
            return 422, _reason(error)

    async def _answer(self, request: fastapi.Request, asked: Asked) -> tuple[int, bytes]:
        self._count(1)
        try:
            body = await self._body(request)
            future = self.pool.submit(self._attempt, body, asked)
        except BaseException:
            self._count(-1)
            raise
        # A thread cannot be stopped: its request counts until it is done.
        future.add_done_callback(lambda _: self._count(-1))
        limit = self.limits.timeout
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), limit)
        except TimeoutError:
            raise _RefusedError(503, f"no answer within {limit:g} s; send fewer rows") from None

    def _count(self, change: int) -> None:
        with self._counting:
            self.n_waiting += change
            self.metrics.waiting.set(self.n_waiting)

    async def _body(self, request: fastapi.Request) -> bytes:
        limit = self.limits.max_bytes
        refused = _RefusedError(413, f"a body may have {limit:,} bytes; send several requests")
        if int(request.headers.get("content-length", 0)) > limit:
            raise refused
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.timeout):
                async for part in request.stream():
                    size += len(part)
                    if size > limit:
                        raise refused
                    parts.append(part)
        except TimeoutError:
            raise _RefusedError(408, "the body did not arrive in time") from None
        return b"".join(parts)


def _reason(error: Exception) -> bytes:
    return pydantic_core.to_json({"detail": printable(str(error))[:2000]})


def _formats(asked: Asked, headers: Mapping[str, str]) -> Asked:
    """What is asked, with the formats that the headers name."""
    given = headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if given not in (JSON, ARROW):
        raise _RefusedError(415, f"Content-Type must be {JSON} or {ARROW}; got {given}")
    accepted = headers.get("accept", "").lower()
    arrow = ARROW in accepted or (given == ARROW and JSON not in accepted)
    return replace(asked, arrow_in=given == ARROW, arrow_out=arrow)


def create_app(model: TableModel, limits: Limits | None = None) -> fastapi.FastAPI:
    """An application that answers for a model, for uvicorn or any other server of ASGI.

    ``POST /predict`` takes rows as JSON or as an Arrow IPC stream, ``/healthz`` says that it runs,
    ``/metrics`` counts (Prometheus), ``/openapi.json`` describes the model's rows and answers.

    Parameters
    ----------
    model : fitted classifier, regressor or ranker
    limits : Limits, optional

    Examples
    --------
    >>> from fastapi.testclient import TestClient
    >>> from nrs import NRSRegressor
    >>> model = NRSRegressor(preset="fast", epochs=2).fit([[0.0], [1.0]] * 30, [0.0, 1.0] * 30)
    >>> with TestClient(create_app(model)) as client:
    ...     answer = client.post("/predict", json={"rows": [{"x0": 0.5}]})
    >>> answer.status_code, list(answer.json()["predictions"][0])
    (200, ['prediction'])
    """
    service = Service(model, limits or Limits())
    app = fastapi.FastAPI(
        title=f"nrs {type(model).__name__}",
        version=__version__,
        lifespan=service.running,
        # Pages that load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
    )

    @app.post(
        "/predict",
        response_class=fastapi.Response,
        openapi_extra={"requestBody": _body_schema(service.answers.reader)},
        responses=_answer_schema(service.answers.columns),  # type: ignore[arg-type]
    )
    async def predict(
        request: fastapi.Request,
        probabilities: bool = True,
        interval: _Level = None,
        sets: _Level = None,
    ) -> fastapi.Response:
        """Predictions of rows; with the probabilities of classes, intervals or sets."""
        asked = Asked(probabilities, interval, sets)
        return await service.respond(request, asked)

    @app.exception_handler(fastapi.exceptions.RequestValidationError)
    async def refuse(
        request: fastapi.Request, error: fastapi.exceptions.RequestValidationError
    ) -> fastapi.Response:
        wrong = error.errors()[0]
        reason = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
        return fastapi.responses.JSONResponse({"detail": printable(reason)}, 422)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the service runs."""
        return {"status": "ok"}

    @app.get("/metrics", response_class=fastapi.Response)
    async def metrics() -> fastapi.Response:
        """Counters and times, as Prometheus reads them."""
        content = prometheus_client.generate_latest(service.metrics.registry)
        return fastapi.Response(content, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    return app


def _body_schema(reader: RequestRows) -> dict[str, Any]:
    binary = {"type": "string", "format": "binary"}
    content = {JSON: {"schema": reader.schema()}, ARROW: {"schema": binary}}
    return {"required": True, "content": content}


def _answer_schema(columns: Mapping[str, np.ndarray]) -> dict[int, dict[str, Any]]:
    types = {float: "number", int: "integer", bool: "boolean", str: "string"}
    row = {name: {"type": types[type(values.tolist()[0])]} for name, values in columns.items()}
    rows = {"type": "array", "items": {"type": "object", "properties": row}}
    answer = {"type": "object", "properties": {"predictions": rows}}
    refused = {"type": "object", "properties": {"detail": {"type": "string"}}}
    reasons = {
        408: "The body did not arrive in time.", 413: "Too many bytes or rows.",
        415: "Neither JSON nor Arrow.", 422: "The rows are not those of the model.",
        503: "Too many requests at once, or no answer in time.",
    }  # fmt: skip
    return {
        200: {"description": "One prediction per row.", "content": {JSON: {"schema": answer}}},
        **{
            status: {"description": reason, "content": {JSON: {"schema": refused}}}
            for status, reason in reasons.items()
        },
    }


def _protocol() -> type[asyncio.Protocol]:
    """uvicorn's protocol, which waits neither for the head of a request nor for a slow reader."""
    h11 = import_optional("h11", "nrs serve", "serve")
    base = import_optional("uvicorn.protocols.http.h11_impl", "nrs serve", "serve").H11Protocol

    class Impatient(base):  # type: ignore[misc, valid-type]
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self.deadline = self.loop.call_later(HEAD_SECONDS, transport.abort)

        def connection_lost(self, exc: Exception | None) -> None:
            self.deadline.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self.deadline.cancel()
            elif self.deadline.cancelled():
                self.deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

        def timeout_keep_alive_handler(self) -> None:
            if self.transport.get_write_buffer_size():
                self.transport.abort()
            else:
                super().timeout_keep_alive_handler()

    return Impatient


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once only on sockets that name their protocol; others wait 40 ms between the
    # head of an answer and its body.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def serve(
    path: str | os.PathLike[str],
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: Limits | None = None,
    started: Callable[[str], object] | None = None,
) -> None:
    """Serve a model file until SIGINT or SIGTERM, which lets requests at hand end first.

    Parameters
    ----------
    path : path
        A model of tables, saved by nrs.
    host, port : address; port 0 is any that is free.
    limits : Limits, optional
    started : callable, optional
        Called with the address once connections are accepted.

    Raises
    ------
    OSError
        If the address cannot be used.
    """
    limits = limits or Limits()
    app = create_app(load_model(path), limits)
    config = uvicorn.Config(
        app, http=_protocol(), ws="none", log_level="error", access_log=False,
        server_header=False, limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=math.ceil(limits.timeout),
        timeout_graceful_shutdown=math.ceil(limits.timeout),
    )  # fmt: skip
    with _listen(host, port) as listening:
        # What there is now stays: looking for garbage among it takes longer than a request.
        gc.collect()
        gc.freeze()
        if started is not None:
            shown = f"[{host}]" if ":" in host else host
            started(f"http://{shown}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])
