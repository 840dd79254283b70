"""``nrs serve``: a model file behind HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from nrs.cli.errors import refusals
from nrs.cli.options import Model
from nrs.cli.report import Terminated
from nrs.cli.terminal import echo


@refusals
def serve(
    model: Model,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for any free one.", min=0, max=65535)] = 8000,
    max_rows: Annotated[int, typer.Option(help="Rows of a request.", min=1)] = 10_000,
    max_bytes: Annotated[int, typer.Option(help="Bytes of a request's body.", min=1)] = 8_000_000,
    timeout: Annotated[
        float, typer.Option(help="Seconds for a body to arrive, and for its answer.", min=0.1)
    ] = 30.0,
    max_waiting: Annotated[
        int, typer.Option(help="Requests at once; further ones get status 503.", min=1)
    ] = 64,
    threads: Annotated[
        int, typer.Option(help="Threads that read, predict and answer.", min=1, max=256)
    ] = 8,
) -> None:
    """Answer HTTP requests with a saved model: rows in JSON or Arrow in, predictions out.

    POST /predict answers; /openapi.json describes rows and answers, /healthz says that the service
    runs, /metrics has counts and times for Prometheus. Ctrl-C or SIGTERM lets requests at hand end.

    Example: nrs serve churn.safetensors --port 8000
    """
    from nrs.cli.predict import check_files

    check_files(model)
    from nrs import serve as service

    limits = service.Limits(max_bytes, max_rows, timeout, max_waiting, threads)
    try:
        service.serve(model, host, port, limits, started=_announce)
    except (KeyboardInterrupt, Terminated):
        # uvicorn has ended, and passes the signal on.
        echo("stopped")


def _announce(address: str) -> None:
    echo(f"serving on {address}; POST {address}/predict", err=True)
