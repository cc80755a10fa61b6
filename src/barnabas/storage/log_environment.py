"""What the logs of one manager share: disk, time, background tasks, segments' common parts, where failures go.

Immutable; made by LogManager, read by its logs on any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Files
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.segment.factory import SegmentFactory


@dataclass(frozen=True, slots=True)
class LogEnvironment:
    """on_failure: told log directory, what was being done, and the error, when a disk fails (more than being full).

    write_checkpoints: writes recovery points and log start offsets of a log directory at once, because one of them
    has become smaller. May be called under a log's lock; raises OSError. write_later: see BackgroundWrites.
    producer_id_expiration_ms: how long an idle producer is remembered, as set now.
    """

    files: Files
    clock: Clock
    scheduler: Scheduler
    segments: SegmentFactory
    on_failure: Callable[[str, str, OSError], None]
    write_checkpoints: Callable[[str], None]
    write_later: Callable[[Callable[[], None]], None]
    producer_id_expiration_ms: Callable[[], int]
