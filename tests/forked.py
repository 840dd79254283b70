"""Processes that can be killed, forked from a server that has imported nrs once.

A process of its own takes two seconds of CPU time to import torch; a fork of the server none.
"""

import multiprocessing
import os
import sys

CONTEXT = multiprocessing.get_context("forkserver")
# The last one is what torch imports in the first step of an optimizer.
CONTEXT.set_forkserver_preload(["nrs.tabular", "sklearn.datasets", "torch._dynamo"])


class Forked:
    """A script in a process; `stdout` is a file of its lines, read while it runs."""

    def __init__(self, script, *arguments):
        reading, writing = CONTEXT.Pipe(duplex=False)
        given = (script, [str(argument) for argument in arguments], writing)
        self.process = CONTEXT.Process(target=_run, args=given, daemon=True)
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
        with self.stdout:
            lines = self.stdout.readlines()
        self.process.join()
        return lines

    @property
    def returncode(self):
        return self.process.exitcode


def _run(script, arguments, writing):
    os.dup2(writing.fileno(), 1)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.argv = ["script", *arguments]
    exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    sys.stdout.flush()
