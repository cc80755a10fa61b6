"""A member of a consumer group in a process of its own: started, told what to do, listened to, killed.

The process is one of `members/`, whichever library it uses. What it says on its standard output, a line of JSON each:

- `assigned`: partitions it was given; with `whole`, they are all that it holds. `revoked`: partitions it gave back, or
  `lost`.
- `records`: ranges of records (topic, partition, first offset, last offset) that it has worked on: with a `sink`, they
  were sent there and acknowledged.
- `committed`: offsets whose commit was acknowledged; `commit_refused`: the reason.
- `failed`: the end, with the reason; `closed`: it has closed its consumer.

Every event has the milliseconds (`ms`) of the wall clock at which it was told: after an acknowledgement, and for
`assigned`, before the member asks where to go on. A thread for each member reads; the lock of `changed` guards all that
it keeps.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.groups.member_libraries import Library
from tests.groups.members.talk import Place, Settings

WAIT_SECONDS = 90
REPOSITORY = Path(__file__).parent.parent.parent


class MemberFailed(Exception):
    """A member ended though nobody had asked it to, or something did not come true in time."""


class Plan(NamedTuple):
    """What the members of a group have in common."""

    bootstrap: str
    group: str
    topics: tuple[str, ...]
    assignor: str = "range"
    """Or none: the library's own choice."""
    protocol: str = "classic"
    session_ms: int = 6000
    sink: str = ""
    commit: str = "batch"
    """After each batch, or as `asked`, or `auto`: as the library does it by itself."""
    pause_ms: int = 0
    """How long it works on a batch."""


class Range(NamedTuple):
    """Records that a member worked on, and when it said so."""

    place: Place
    first: int
    last: int
    ms: int
    line: int
    """The how manyth thing the member said; so it is with the others."""


class Event(NamedTuple):
    """Something that happened to the partitions of a member, in the order in which it was told."""

    kind: str
    places: frozenset[Place]
    ms: int
    line: int


class Commit(NamedTuple):
    """An offset whose commit was acknowledged."""

    place: Place
    offset: int
    ms: int


class GroupMember:
    """One process; the lists only grow."""

    def __init__(self, library: Library, plan: Plan, directory: Path, instance_id: str = "", name: str = "") -> None:
        self.library = library
        self.name = name or instance_id or library.name
        self.plan = plan
        self.instance_id = instance_id
        self.changed = threading.Condition()
        self.assignment: set[Place] = set()
        self.events: list[Event] = []
        self.ranges: list[Range] = []
        self.commits: list[Commit] = []
        self.refusals: list[str] = []
        self.failure = ""
        self.is_closed = False
        self.log_file = directory / f"{self.name}.log"
        self._may_end = False
        self._lines = 0
        self._process = self._spawn()
        self._reader = threading.Thread(target=self._read, name=f"reader-{self.name}")
        self._reader.start()

    def _spawn(self) -> subprocess.Popen[str]:
        plan = self.plan
        settings = Settings(
            bootstrap=plan.bootstrap,
            group=plan.group,
            topics=",".join(plan.topics),
            assignor=plan.assignor,
            protocol=plan.protocol,
            session_ms=plan.session_ms,
            instance=self.instance_id,
            sink=plan.sink,
            commit=plan.commit,
            pause_ms=plan.pause_ms,
        )
        words = [f"{name}={value}" for name, value in settings._asdict().items()]
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                [*self.library.command(), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=REPOSITORY,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                event = json.loads(line)
            except ValueError:  # the last line of a killed process
                event = {"event": "failed", "ms": 0, "reason": f"said {line!r}"}
            with self.changed:
                self._take(event)
                self.changed.notify_all()
        with self.changed:
            self.assignment = set()
            if not self._may_end:
                self.failure = self.failure or "it ended"
            self.changed.notify_all()

    def _take(self, event: dict[str, Any]) -> None:
        kind, ms, line = event["event"], event["ms"], self._lines
        self._lines += 1
        if kind in {"assigned", "revoked"}:
            places = frozenset((topic, partition) for topic, partition in event["partitions"])
            if kind == "revoked":
                self.assignment -= places
                kind = "lost" if event["lost"] else kind
            else:
                self.assignment = (set() if event.get("whole") else self.assignment) | places
            self.events.append(Event(kind, places, ms, line))
        elif kind == "records":
            self.ranges += [Range((topic, at), first, last, ms, line) for topic, at, first, last in event["ranges"]]
        elif kind == "committed":
            self.commits += [Commit((topic, at), offset, ms) for topic, at, offset in event["offsets"]]
        elif kind == "commit_refused":
            self.refusals.append(event["reason"])
        elif kind == "closed":
            self.is_closed = True
        elif not self._may_end:
            self.failure = event["reason"]

    # What a test asks for

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither ended nor was ended."""
        return self._process.poll() is None and not self._may_end

    def snapshot(self) -> set[Place]:
        """The partitions that it holds now."""
        with self.changed:
            return set(self.assignment)

    def events_after(self, index: int) -> list[Event]:
        """What happened to its partitions since `events` had this many entries; gone and given nothing is nothing."""
        with self.changed:
            return [event for event in self.events[index:] if event.places]

    def worked_on(self, place: Place, offset: int) -> bool:
        """Whether it has worked on this record."""
        with self.changed:
            return any(each.place == place and each.first <= offset <= each.last for each in self.ranges)

    def wait_to_hold(self, places: set[Place]) -> None:
        """Wait until it holds exactly these partitions."""
        wait_until(lambda: self.snapshot() == places, f"{self.name} holds {sorted(places)}", [self])

    def commit(self) -> None:
        """Have it commit where it is, when its `commit` is `asked`."""
        self._say("commit")

    def close(self) -> None:
        """Have it leave as the library leaves, and wait for its end."""
        self.start_closing()
        self.wait_for_end()

    def start_closing(self) -> None:
        """Have it leave, and return at once."""
        self._may_end = True
        self._say("close")

    def wait_for_end(self) -> None:
        """Wait for a member that was told to close."""
        try:
            status = self._process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise MemberFailed(f"{self.name} does not close:\n{self._tail()}") from None
        self._finish()
        if status != 0:
            raise MemberFailed(f"{self.name} closed with status {status}:\n{self._tail()}")

    def kill(self) -> None:
        """Kill -9: it does not leave its group."""
        self._may_end = True
        self._process.kill()
        self._process.wait(WAIT_SECONDS)
        self._finish()

    def stop_running(self) -> None:
        """SIGSTOP: alive, and silent."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def fail_if_ended(self) -> None:
        """Raise when it ended by itself."""
        if self.failure:
            raise MemberFailed(f"{self.name}: {self.failure}\n{self._tail()}")

    def _say(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def _finish(self) -> None:
        self._reader.join(WAIT_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue

    def _tail(self) -> str:
        return self.log_file.read_text(errors="replace")[-3000:]

    def __repr__(self) -> str:
        with self.changed:
            held = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(self.assignment))
        return f"<{self.name}: {held}>"


class Members:
    """The members that one test has started; those still there at its end are killed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.all: list[GroupMember] = []

    def start(self, library: Library, plan: Plan, instance_id: str = "") -> GroupMember:
        """Start one."""
        name = f"{len(self.all):02}-{library.name}-{plan.group}-{instance_id}".rstrip("-")
        member = GroupMember(library, plan, self._directory, instance_id, name)
        self.all.append(member)
        return member

    def running(self) -> list[GroupMember]:
        """Those that were not ended."""
        return [member for member in self.all if member.is_running]

    def end(self) -> None:
        """Kill what is there."""
        for member in self.all:
            if member.is_running:
                member.kill()


@contextmanager
def members_in(directory: Path) -> Iterator[Members]:
    """Members for the length of a block; their standard error is kept in the directory."""
    members = Members(directory)
    try:
        yield members
    finally:
        members.end()


def wait_until(
    is_so: Callable[[], bool], what: str, members: Iterable[GroupMember], seconds: float = WAIT_SECONDS
) -> None:
    """Wait until it is so. Raises MemberFailed when one of the members ends before, or time is up."""
    members = list(members)
    deadline = time.monotonic() + seconds
    while not is_so():
        for member in members:
            member.fail_if_ended()
        if time.monotonic() > deadline:
            raise MemberFailed(f"not in {seconds} s: {what}: {members}")
        time.sleep(0.02)


def wait_for_balance(members: Iterable[GroupMember], places: Iterable[Place]) -> None:
    """Wait until every partition is held by exactly one of these members, and each holds a fair share."""
    members, wanted = list(members), sorted(places)
    least = len(wanted) // len(members)

    def is_balanced() -> bool:
        held = [member.snapshot() for member in members]
        return sorted(place for some in held for place in some) == wanted and all(
            least <= len(some) <= least + 1 for some in held
        )

    wait_until(is_balanced, f"{len(wanted)} partitions shared among {len(members)} members", members)
