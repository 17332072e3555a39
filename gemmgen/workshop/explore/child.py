"""A process of its own for what may hang, crash, or take a GPU's context with it: `Child` starts it, and this file is what it runs.

It answers one call after the other. One that takes too long is killed with its process, and the next call starts another.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

START_SECONDS = 120.0
"""For Python and its libraries, on a busy machine."""
LAST_SECONDS = 10.0
"""For a process that answers no more to end by itself, so that its exit code is known."""
MOST_TOLD = 600
"""Characters of what a process left on stderr that a reason keeps."""


class Hung(Exception):
    """The call took longer than it may; its process was killed."""


class Died(Exception):
    """The process ended before it answered, or says that it is of no more use."""


class Broken(Exception):
    """Raised in the child by a call after which its process is of no more use, as where a GPU's context is lost."""


class Child:
    """One process, started when it is first needed.

    Args:
        env: variables of its environment beside this process's own.
    """

    def __init__(self, env: Mapping[str, str] | None = None):
        self._env = dict(env or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        self._said: Any = None

    @property
    def pid(self) -> int | None:
        """Of the process, where it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def call(self, target: str, *args: Any, seconds: float) -> Any:
        """What `module:function` returns there for `args`.

        Raises:
            Hung, Died: no answer came.
            Exception: what the function raised.
        """
        if self.pid is None:
            self._start()
        assert self._line is not None
        try:
            self._line.send((target, args))
            if not self._line.poll(seconds):
                self.stop()
                raise Hung(f"no answer within {seconds:g} s")
            kind, value = self._line.recv()
        except (EOFError, OSError):
            raise Died(self._ended()) from None
        if kind == "broken":
            self.stop()
            raise Died(value)
        if kind == "raised":
            raise value
        return value

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._line is not None:
            self._line.close()
        self._process = self._line = None

    def _start(self) -> None:
        self.stop()
        mine, others = socket.socketpair()
        self._said = tempfile.TemporaryFile()
        # A session of its own: Ctrl-C is for who started it, who then ends it.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gemmgen.workshop.explore.child", str(others.fileno()), str(os.getpid())], pass_fds=[others.fileno()],
            env={**os.environ, **self._env}, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said, start_new_session=True,
        )
        others.close()
        self._line = Connection(mine.detach())
        if not self._line.poll(START_SECONDS):
            self.stop()
            raise Died(f"the process did not start within {START_SECONDS:g} s")
        try:
            self._line.recv()
        except EOFError:
            raise Died(self._ended()) from None

    def _ended(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(LAST_SECONDS)
        except subprocess.TimeoutExpired:  # it closed its line, and ends no further
            self._process.kill()
            code = self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip()
        self.stop()
        return f"the process ended by {how}" + (f": {said[-MOST_TOLD:]}" if said else "")


def main(number: int, parent: int) -> None:
    """Answer calls until nobody asks any more."""
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    line = Connection(number)
    importlib.import_module("gemmgen.workshop.explore.trial")  # its libraries take a second or two, which no trial is to be charged with
    line.send("ready")
    while True:
        try:
            target, args = line.recv()
        except (EOFError, OSError):
            return
        module, _, name = target.partition(":")
        try:
            answer = ("value", getattr(importlib.import_module(module), name)(*args))
        except Broken as error:
            answer = ("broken", str(error))
        except Exception as error:
            answer = ("raised", error)
        try:
            line.send(answer)
        except (OSError, BrokenPipeError):
            return
        except Exception:  # what cannot be sent as it is
            raised = "".join(traceback.format_exception(answer[1]))[-MOST_TOLD:] if answer[0] == "raised" else ""
            line.send(("raised", RuntimeError(raised or "its answer is none that can be sent")))


def _leave_with(parent: int) -> None:
    """End this process when its parent is gone: a kernel that never ends would keep it, and the GPU."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":  # of which `Broken` would be another class than the one that calls import
    importlib.import_module("gemmgen.workshop.explore.child").main(int(sys.argv[1]), int(sys.argv[2]))
