"""The services that the logs of one manager share: disk, clock, scheduler, segment factory, failure reports.

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
    """Shared services of logs.

    on_failure: called with log directory, operation and error when a disk fails (a full disk is no failure).
    write_checkpoints: writes recovery points and log start offsets of a log directory at once, because one of them
    has become smaller; may be called under a log's lock; raises OSError. write_later: has a small file written in the
    background (`BackgroundWrites.later`). producer_id_expiration_ms: how long an idle producer is remembered now.
    verifies_transactions: whether the first batch of a transaction needs a verification now.
    """

    # The callables go up to LogManager and its parts. As values handed in they keep imports going one way: a log knows
    # nothing of other logs, of their directories or of the manager.
    files: Files
    clock: Clock
    scheduler: Scheduler
    segments: SegmentFactory
    on_failure: Callable[[str, str, OSError], None]
    write_checkpoints: Callable[[str], None]
    write_later: Callable[[Callable[[], None]], None]
    producer_id_expiration_ms: Callable[[], int]
    verifies_transactions: Callable[[], bool]
