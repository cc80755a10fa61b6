"""A pipeline's lock and its status file, by which `status` and `stop` know of a run in another process.

Called on the main thread. The lock is the operating system's (flock): it ends with the process, however that ends. The
status file is replaced whole.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout
from barnabas_spark.pipeline.pipeline_error import RunFailed


@contextmanager
def run_lock(layout: CheckpointLayout) -> Iterator[None]:
    """Hold the pipeline's lock. Raises RunFailed if another process does, OSError."""
    os.makedirs(layout.root, exist_ok=True)
    with open(layout.lock, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunFailed(f"the pipeline runs already, as process {running_process(layout)}") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def running_process(layout: CheckpointLayout) -> int | None:
    """Return the process that runs the pipeline, or None. Raises OSError."""
    try:
        with open(layout.lock, encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read()
                # Empty for the moment between the lock and the number.
                return int(text) if text.isdigit() else 0
    except FileNotFoundError:
        pass
    return None


def write_status(layout: CheckpointLayout, status: dict[str, Any]) -> None:
    """Replace the status. Raises OSError."""
    temporary = f"{layout.status}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(status, file, indent=1)
    os.replace(temporary, layout.status)


def read_status(layout: CheckpointLayout) -> dict[str, Any] | None:
    """Return the status of the last run, or None if there was none. Raises OSError, ValueError for a damaged file."""
    try:
        with open(layout.status, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
            return found
    except FileNotFoundError:
        return None
