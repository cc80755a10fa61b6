"""What the members written in Python share: their settings, and how they talk to the test that started them.

Each is run as `python -m tests.groups.members.<library> name=value ...`. It prints one line of JSON for everything that
happens to it, and takes `commit` and `close` as lines on its standard input, whose end also closes it. group_member.py
says what the events are. Events may be told by any thread.
"""

from __future__ import annotations

import json
import logging
import queue
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Place = tuple[str, int]
"""A partition: its topic and its number."""

PATTERN_MARK = "^"
"""What the topics begin with when they are a regular expression."""
BATCH_RECORDS = 200
"""How many records a member takes at once, at most."""
POLL_MS = 100

_OUTPUT = threading.Lock()


class Settings(NamedTuple):
    """What a member is told on its command line."""

    bootstrap: str
    group: str
    topics: str
    assignor: str
    protocol: str
    session_ms: int
    instance: str
    sink: str
    commit: str
    pause_ms: int

    @classmethod
    def of_command_line(cls) -> Settings:
        """The settings of this process, whose libraries from now on log to its standard error."""
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
        given: dict[str, Any] = dict(argument.split("=", 1) for argument in sys.argv[1:])
        return cls(**given | {name: int(given[name]) for name in ("session_ms", "pause_ms")})

    @property
    def pattern(self) -> str:
        """The expression that topics must match, or nothing if they are named."""
        return self.topics if self.topics.startswith(PATTERN_MARK) else ""

    @property
    def heartbeat_ms(self) -> int:
        """Often, so that members hear of a rebalance soon."""
        return min(500, self.session_ms // 3)


class Taken(NamedTuple):
    """A record that the member was given."""

    topic: str
    partition: int
    offset: int
    value: bytes


def tell(event: str, **fields: Any) -> None:
    """Tell the test what happened."""
    line = json.dumps({"event": event, "ms": time.time_ns() // 1_000_000, **fields})
    with _OUTPUT:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def tell_records(records: Iterable[Taken]) -> None:
    """Tell which records were worked on."""
    tell("records", ranges=_ranges(records))


def _ranges(records: Iterable[Taken]) -> list[list[object]]:
    ranges: list[list[Any]] = []
    latest: dict[Place, list[Any]] = {}
    for record in records:
        known = latest.get((record.topic, record.partition))
        if known is not None and known[3] == record.offset - 1:
            known[3] = record.offset
        else:
            latest[record.topic, record.partition] = [record.topic, record.partition, record.offset, record.offset]
            ranges.append(latest[record.topic, record.partition])
    return ranges


def tell_committed(offsets: Mapping[Place, int]) -> None:
    """Tell which offsets the broker has acknowledged."""
    tell("committed", offsets=[[*place, offset] for place, offset in offsets.items()])


class Positions:
    """The offsets behind what was worked on, of the partitions that the member holds."""

    def __init__(self) -> None:
        self._next: dict[Place, int] = {}

    def worked_on(self, records: Sequence[Taken]) -> None:
        self._next.update({(record.topic, record.partition): record.offset + 1 for record in records})

    def forget(self, places: Iterable[Place]) -> None:
        for place in places:
            self._next.pop(place, None)

    def take(self) -> dict[Place, int]:
        """What is to be committed; nothing of it the next time."""
        taken, self._next = self._next, {}
        return taken


class Commands:
    """What the test asks for, read by a thread of its own."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="commands", daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._asked.put(line.strip())
        self._asked.put("close")

    def next(self) -> str:
        """The next command, or an empty one."""
        try:
            return self._asked.get_nowait()
        except queue.Empty:
            return ""
