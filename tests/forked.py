"""Processes that can be killed, forked from a server that has imported nrs once.

A process of its own takes two seconds of CPU time to import torch; a fork of the server none.
"""

import multiprocessing
import os
import socket
import subprocess
import sys
import threading

CONTEXT = multiprocessing.get_context("forkserver")
# The last one is what torch imports in the first step of an optimizer.
CONTEXT.set_forkserver_preload(
    ["nrs.tabular", "nrs.paper.runner", "nrs.cli.app", "sklearn.datasets", "torch._dynamo"]
)
# A script that takes longer hangs, and is killed.
SECONDS = 120


class Forked:
    """A script in a process; `stdout` is a file of its lines, read while it runs.

    Errors are among the lines. A parent of processes of its own outlives a test that fails; kill
    it there.
    """

    def __init__(self, script, *arguments, environment=None, parent=False):
        reading, writing = CONTEXT.Pipe(duplex=False)
        environment = _engine() | (environment or {})
        given = (script, [str(argument) for argument in arguments], environment, writing)
        self.process = CONTEXT.Process(target=_run, args=given, daemon=not parent)
        self.process.start()
        writing.close()
        self.stdout = os.fdopen(os.dup(reading.fileno()))
        reading.close()

    def kill(self):
        """SIGKILL; returns the lines that were still unread."""
        self.process.kill()
        return self.rest()

    def rest(self):
        """The lines up to the end of the process; `returncode` then tells how it ended."""
        limit = threading.Timer(SECONDS, self.process.kill)
        limit.start()
        with self.stdout:
            lines = self.stdout.readlines()
        self.process.join()
        limit.cancel()
        return lines

    @property
    def returncode(self):
        return self.process.exitcode


def run_ranks(script, n, *arguments):
    """Run a script as a launcher would in `n` processes; returns what each of them printed.

    That torchrun is such a launcher is tested with the commands.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    group = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    started = [
        Forked(script, *arguments, environment={"RANK": str(k), "LOCAL_RANK": str(k), **group})
        for k in range(n)
    ]
    said = ["".join(process.rest()) for process in started]
    assert [process.returncode for process in started] == [0] * n, said
    return said


def _run(script, arguments, environment, writing):
    for number in (1, 2):
        os.dup2(writing.fileno(), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
    writing.close()
    os.environ.update(environment)
    sys.argv = ["script", *arguments]
    exec(compile(script, "script", "exec"), {"__name__": "__main__"})


class ForkedWorker:
    """Stands for the process that `nrs._util.launch.launch` starts."""

    def __init__(self, code, *arguments, stderr):
        reading, self.stdin = CONTEXT.Pipe(duplex=False)
        given = (code, [str(argument) for argument in arguments], reading, str(stderr), _engine())
        self.process = CONTEXT.Process(target=_work, args=given, daemon=True)
        self.process.start()
        reading.close()

    def poll(self):
        return self.process.exitcode

    returncode = property(poll)

    def wait(self, timeout=None):
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired("a worker", timeout)
        return self.process.exitcode

    def kill(self):
        self.process.kill()


def _engine():
    """The engine of this process, which may be another than when the server began."""
    return {"NRS_ENGINE": os.environ.get("NRS_ENGINE", "")}


def _work(code, arguments, reading, errors, environment):
    os.environ.update(environment)
    sys.stdin = os.fdopen(reading.fileno(), closefd=False)
    sys.stderr = open(errors, "w")  # noqa: SIM115
    sys.argv = ["-c", *arguments]
    exec(compile(code, "-c", "exec"), {"__name__": "__main__"})
