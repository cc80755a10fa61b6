"""What the members written in Python share: their settings, their work, and how they tell the test what happened.

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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

Place = tuple[str, int]
"""A partition: its topic and its number."""

PATTERN_MARK = "^"
"""What the topics begin with when they are a regular expression."""
BATCH_RECORDS = 200
"""How many records a member takes at once, at most."""
POLL_MS = 100

SECONDS = 60
"""How long a member is patient with a broker."""

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


class Rebalances:
    """A listener, mixed into that of a library: it tells which partitions (of any library's kind) come and go."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        tell("assigned", partitions=[(place.topic, place.partition) for place in assigned])

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._gone(revoked, is_lost=False)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._gone(lost, is_lost=True)

    def _gone(self, places: Iterable[Any], *, is_lost: bool) -> None:
        gone = [(place.topic, place.partition) for place in places]
        self._positions.forget(gone)
        tell("revoked", partitions=gone, lost=is_lost)


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


class Member(ABC):
    """One consumer and one producer, on one thread."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """What ends a member."""
    refusals: ClassVar[tuple[type[Exception], ...]]
    """What a commit raises that the broker refuses."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._positions = Positions()

    @classmethod
    def main(cls) -> None:
        """Be a member until told to close."""
        settings = Settings.of_command_line()
        try:
            cls(settings)._run()
        except cls.errors as failure:
            logging.getLogger(__name__).exception("the member ends")
            tell("failed", reason=repr(failure))
            sys.exit(1)

    def _run(self) -> None:
        commands = Commands()
        self._subscribe()
        while (command := commands.next()) != "close":
            if command == "commit":
                self._commit()
            self._work_on(self._poll())
        self._close()
        tell("closed")

    def _work_on(self, records: Sequence[Taken]) -> None:
        if not records:
            return
        if self._settings.sink:
            self._send([record.value for record in records])
        self._pause(self._settings.pause_ms / 1000)
        tell_records(records)
        self._positions.worked_on(records)
        if self._settings.commit == "batch":
            self._commit()

    def _commit(self) -> None:
        offsets = self._positions.take()
        try:
            self._commit_offsets(offsets)
        except self.refusals as refused:
            tell("commit_refused", reason=repr(refused))
        else:
            tell("committed", offsets=[[*place, offset] for place, offset in offsets.items()])

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)

    # -- what each library does in its way

    @abstractmethod
    def _subscribe(self) -> None:
        """Subscribe to the topics of the settings, or to their pattern."""

    @abstractmethod
    def _poll(self) -> Sequence[Taken]:
        """Fetch the next records, at most BATCH_RECORDS, within POLL_MS."""

    @abstractmethod
    def _send(self, values: Sequence[bytes]) -> None:
        """Send values to the sink; return when all are acknowledged."""

    @abstractmethod
    def _commit_offsets(self, offsets: Mapping[Place, int]) -> None:
        """Commit; return when it is acknowledged."""

    @abstractmethod
    def _close(self) -> None:
        """Leave the group."""
