"""The broker's side of the cleaner's process: starts it, sends requests, waits for answers, and ends it.

Owned by one cleaner thread; any thread may call `interrupt`, which ends the process while its owner waits for it.
`_lock` guards the process. The process inherits nothing of the broker except the two pipes, which is why it is not made
by multiprocessing (decisions/0010-cleaner-process.md). Implements `messages.CleanerWorker`. Kafka has no counterpart.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import barnabas
from barnabas.storage.cleaner.log_cleaner_manager import CleanerInterrupted
from barnabas.storage.cleaner.messages import GroupRequest, GroupResult, MapRequest, MapResult
from barnabas.storage.cleaner.process import BUILD_MAP, CLEAN_GROUP, DONE, OS_ERROR

logger = logging.getLogger(__name__)

MODULE = "barnabas.storage.cleaner.process"
_END_SECONDS = 5.0


class CleaningFailed(Exception):
    """The process met data that it cannot clean; the text is its error."""


class CleanerChild:
    """At most one process at a time, started by `open`. Requests raise CleanerInterrupted, CleaningFailed, OSError."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._was_interrupted = False

    @property
    def process_id(self) -> int | None:
        """The id of the running process; None when none runs."""
        process = self._process
        return process.pid if process is not None else None

    def open(self) -> None:
        """Start the process if none runs. Raises CleanerInterrupted when no process can be started."""
        # The interruption came while no request was under way: it was meant for the cleaning before.
        if self._was_interrupted:
            self.close()
        with self._lock:
            if self._process is None:
                try:
                    self._process = _start()
                except OSError as error:
                    raise CleanerInterrupted(f"no cleaner process could be started: {error}") from error
                logger.debug("%s: started process %d", self._name, self._process.pid)

    def build_map(self, request: MapRequest) -> MapResult:
        """Have the process begin a cleaning. Raises CleanerInterrupted, CleaningFailed, OSError."""
        return MapResult(*self._ask(BUILD_MAP, request))

    def clean_group(self, request: GroupRequest) -> GroupResult:
        """Have the process clean a group. Raises CleanerInterrupted, CleaningFailed, OSError."""
        return GroupResult(*self._ask(CLEAN_GROUP, request))

    def interrupt(self) -> None:
        """Kill the process: its current or next request raises CleanerInterrupted."""
        with self._lock:
            if self._process is not None:
                self._was_interrupted = True
                self._process.kill()

    def close(self) -> None:
        """End the process, if one runs. Called by the owner only."""
        with self._lock:
            process, self._process = self._process, None
            self._was_interrupted = False
        if process is not None:
            _end(process)
            logger.debug("%s: process %d has ended", self._name, process.pid)

    def _ask(self, kind: str, request: MapRequest | GroupRequest) -> list[Any]:
        """Send a request and wait for its answer. Raises CleanerInterrupted, CleaningFailed, OSError."""
        process = self._process
        if process is None:
            raise CleanerInterrupted("the process of this cleaning has ended")
        line = ""
        try:
            if process.stdin is not None and process.stdout is not None:
                process.stdin.write(json.dumps([kind, request]) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
        # A broken pipe: the process has ended.
        except OSError:
            line = ""
        # A process that dies in the middle of an answer leaves a line without its end.
        if not line.endswith("\n"):
            self.close()
            raise CleanerInterrupted(f"cleaner process {process.pid} ended with status {process.returncode}")
        outcome, *answer = json.loads(line)
        if outcome == DONE:
            result: list[Any] = answer[0]
            return result
        what, number, text = answer
        if what == OS_ERROR:
            raise OSError(number, text)
        raise CleaningFailed(f"{what}: {text}")


def _start() -> subprocess.Popen[str]:
    """Start the process. It finds this package where the broker did, and runs nothing else of the broker's.

    Raises OSError.
    """
    root = str(Path(barnabas.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    return subprocess.Popen(  # noqa: S603 - this very interpreter and a module of ours
        [sys.executable, "-m", MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def _end(process: subprocess.Popen[str]) -> None:
    """Close the pipes, upon which the process ends, and wait for its end."""
    for pipe in (process.stdin, process.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except OSError:
            logger.debug("process %d was gone already", process.pid)
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
