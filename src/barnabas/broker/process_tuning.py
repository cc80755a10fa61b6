"""Process-wide settings of a broker: descriptors, memory, garbage collection, thread switching.

Called by BrokerServer and `serve`, at the beginning and the end of a start. No other module changes the state of the
process. Kafka has no counterpart; its start scripts set the options of the JVM.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import resource
import sys

logger = logging.getLogger(__name__)

SWITCH_INTERVAL_SECONDS = 0.0002
"""How long a computing thread may keep the GIL from a waiting one. Beside one that never pauses, a request's p99 is
16 ms at Python's default of 5 ms and 1.1 ms at 0.2 ms, for one percent of throughput; at 0.1 ms it would cost six
(docs/decisions/0008-switch-interval.md)."""

MALLOC_SETTINGS = (
    (-3, 1 << 20),  # M_MMAP_THRESHOLD: a block from so many bytes on is mapped, and unmapped when freed
    (-1, 1 << 20),  # M_TRIM_THRESHOLD: so much free memory at the end of the heap is given back
    (-8, 1),  # M_ARENA_MAX: one heap for all threads; under Python's lock they hardly ever meet there
)
"""Parameters and values of glibc's mallopt(3). Setting the first two ends their adjustment by use."""

COLLECTION_THRESHOLDS = (50_000, 1_000, 2)
"""Requests make no cycles (a test checks that), so the collector would find nothing: it runs rarely. The second
generation is collected after 50 million objects more and not after one million, which are those of one large request:
the collector would look at each of them, and keep the GIL from the network threads for 0.1 s."""

MANY_GROUP_RECORDS = 100_000


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one. Return the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            logger.warning("the limit of open files stays at %d: %s", soft, error)
            return soft
    return hard


def tune_memory_allocation() -> None:
    """Have glibc give freed memory back to the system, before any thread is started. Other C libraries are left alone.

    By its own rule glibc raises the size from which a block is mapped to that of any large block ever freed. From then
    on large frames and answers come from the heaps, one per thread, and leave them full of holes: under mutated
    requests of up to 4 MB the resident memory grew from 54 to 159 MB in two minutes, a third of it in use. With these
    settings it stays at 60 MB (docs/decisions/0012-memory-allocation.md).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for parameter, value in MALLOC_SETTINGS:
        if not mallopt(parameter, value):
            logger.warning("the memory allocator rejects the value %d for its parameter %d", value, parameter)


def tune_thread_switching() -> None:
    """Shorten the switch interval."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)


def pause_collection() -> None:
    """Collect no garbage until `freeze_startup_objects`.

    A start leaves some 600 objects in cycles, most of them of modules. To look for them takes a tenth of the start.
    """
    gc.disable()


def freeze_startup_objects() -> None:
    """Exclude the objects that exist after the start from collection: they live as long as the broker."""
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    gc.enable()


def freeze_loaded_groups(record_count: int) -> None:
    """Exclude loaded groups from collection if there are very many. A few do not slow the collector down."""
    if record_count >= MANY_GROUP_RECORDS:
        gc.freeze()
