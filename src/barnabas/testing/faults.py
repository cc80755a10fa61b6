"""The faults of a broker of the test kit: `b.faults.add(Error("NOT_LEADER_OR_FOLLOWER"), api="Produce")`.

Made by BrokerProcess with `faults=True`. Any thread of the test may call it: `_lock` is held by the methods that add
and remove, and while the broker's process starts; `_counted` guards the counts, which the thread of a FaultPipe brings.

Faults outlive the process. A broker that is started again installs them before it reads its first request, and goes on
counting where the last process ended: `Nth(3)` hits once, however often the broker is started.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import BinaryIO, Final, Self

from barnabas.faults.control_messages import Command, Report, decode_report, encode_command
from barnabas.faults.fault_plan import Action, Api, Calls, FaultPlan, Kill, fault_plan
from barnabas.faults.fault_table import NO_COUNTS, Counts, InstalledFault

WAIT_SECONDS = 30.0


class Fault:
    """One fault: its plan, its counts, and the way to remove it. `with` removes it at the end of the block."""

    def __init__(self, faults: Faults, fault_id: int, plan: FaultPlan) -> None:
        self._faults = faults
        self.fault_id = fault_id
        """The number that the broker's log shows."""
        self.plan = plan

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    @property
    def hits(self) -> int:
        """The requests that the fault has hit. A client that has met the fault finds its request counted."""
        return self._faults.counts_of(self).hits

    @property
    def calls(self) -> int:
        """The requests that the plan has matched, whether or not the fault has hit them."""
        return self._faults.counts_of(self).calls

    def wait_for_hits(self, count: int = 1, timeout_seconds: float = WAIT_SECONDS) -> None:
        """Wait until the fault has hit `count` requests. Raises TimeoutError, with the counts, if it does not."""
        self._faults.wait_for_hits(self, count, timeout_seconds)

    def remove(self) -> None:
        """Remove the fault. Requests that it holds back stay held back. Removing it again does nothing."""
        self._faults.remove(self)

    def __repr__(self) -> str:
        return f"Fault({self.fault_id}, {self.plan})"


class Faults:
    """The faults of one broker, in the order in which they were added; iterate over it to list them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._ids = itertools.count(1)
        self._commands = itertools.count(1)
        self._faults: dict[int, Fault] = {}
        self._pipe: FaultPipe | None = None
        self._counted = threading.Condition(threading.Lock())
        self._counts: dict[int, Counts] = {}
        self._kills: set[int] = set()
        """The ids of all faults whose action is Kill, the removed ones too."""
        self._has_killed = False

    def __iter__(self) -> Iterator[Fault]:
        with self._lock:
            return iter(list(self._faults.values()))

    def __len__(self) -> int:
        return len(self._faults)

    def add(
        self,
        action: Action,
        *,
        api: Api | Iterable[Api] | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        calls: Calls | None = None,
    ) -> Fault:
        """Have `action` hit the requests that match; it does so from the moment this returns.

            b.faults.add(Error("NOT_LEADER_OR_FOLLOWER"), api="Produce", calls=Every(10))
            b.faults.add(Delay(500), api="Fetch", client_id="slow")

        api: Kafka's name or key of an API, or several; None: all. client_id: as the client sends it. topic: a topic
        that the request names, by name or id. calls: which of these requests are hit (Nth, First, Every, Chance);
        None: each one. Of the faults that are due for a request, the one that was added first hits it.

        Raises ValueError or TypeError for a plan that makes no sense, an API that the broker does not serve, or the
        client id by which the broker speaks to itself (its own id: no fault would hit these requests). Raises
        TimeoutError if a paused broker does not answer (it installs the fault when it goes on).
        """
        plan = fault_plan(action, api=api, client_id=client_id, topic=topic, calls=calls)
        with self._lock:
            fault = Fault(self, next(self._ids), plan)
            if isinstance(action, Kill):
                self._kills.add(fault.fault_id)
            # Before the call: a broker that does not answer in time, because it is paused, installs the fault later.
            self._faults[fault.fault_id] = fault
            report = self._call(install=(InstalledFault(fault.fault_id, plan),))
            if report is not None and report.error is not None:
                del self._faults[fault.fault_id]
                raise ValueError(report.error)
        return fault

    def remove(self, fault: Fault) -> None:
        """Remove one fault. Its counts stay what they are."""
        with self._lock:
            if self._faults.pop(fault.fault_id, None) is not None:
                self._call(remove=(fault.fault_id,))

    def clear(self) -> None:
        """Remove every fault."""
        with self._lock:
            removed = tuple(self._faults)
            self._faults.clear()
            self._call(remove=removed)

    def counts_of(self, fault: Fault) -> Counts:
        """Return the counts of a fault: asked of the broker, or those of its last report if it does not run."""
        with self._lock:
            if fault.fault_id in self._faults:
                self._call()
        with self._counted:
            return self._counts.get(fault.fault_id, NO_COUNTS)

    def wait_for_hits(self, fault: Fault, count: int, timeout_seconds: float) -> None:
        """Wait until a fault has hit `count` requests. Raises TimeoutError if it does not in time."""
        with self._counted:
            if not self._counted.wait_for(lambda: self._hits(fault) >= count, timeout_seconds):
                counts = self._counts.get(fault.fault_id, NO_COUNTS)
                raise TimeoutError(
                    f"{fault} hit {counts.hits} of {counts.calls} matching requests within {timeout_seconds} s, "
                    f"not {count}"
                )

    # -- of BrokerProcess

    @contextmanager
    def for_start(self) -> Iterator[tuple[int, ...]]:
        """Make the pipes for a process that is started inside the block; then install all faults in it.

        Yields the descriptors that the process has to inherit.
        """
        # Under the lock from end to end: a fault that another thread adds meanwhile would be installed twice.
        with self._lock:
            self._has_killed = False
            pipe = self._pipe = FaultPipe(self._note_report)
            try:
                yield pipe.child_descriptors
            except BaseException:
                self.close_pipe()
                raise
            pipe.child_has_started()
            installed = tuple(
                InstalledFault(fault.fault_id, fault.plan, self._counts.get(fault.fault_id, NO_COUNTS))
                for fault in self._faults.values()
            )
            # BrokerProcess finds out that the process has ended, and tells more of it than a closed pipe does.
            with suppress(BrokerGone):
                pipe.send(Command(next(self._commands), installed))

    def close_pipe(self) -> None:
        """Close the pipes to a process that has ended."""
        with self._lock:
            if self._pipe is not None:
                self._pipe.close()
                self._pipe = None

    @property
    def has_killed_broker(self) -> bool:
        """Whether a Kill has hit a request since the last start."""
        return self._has_killed

    # -- reports

    def _call(self, install: tuple[InstalledFault, ...] = (), remove: tuple[int, ...] = ()) -> Report | None:
        """Send a command and return its answer; None if there is no process, which gets all faults when it starts."""
        if self._pipe is None:
            return None
        try:
            return self._pipe.call(Command(next(self._commands), install, remove))
        except BrokerGone:
            return None

    def _hits(self, fault: Fault) -> int:
        return self._counts.get(fault.fault_id, NO_COUNTS).hits

    def _note_report(self, report: Report) -> None:
        with self._counted:
            before, self._counts = self._counts, self._counts | report.counts
            if any(
                counts.hits > before.get(each, NO_COUNTS).hits
                for each, counts in report.counts.items()
                if each in self._kills
            ):
                self._has_killed = True
            self._counted.notify_all()


# -- the pipes to the broker's process

ANSWER_SECONDS: Final = 30.0
END_SECONDS: Final = 5.0
"""How long the last reports are awaited: a process that the broker has started may keep the pipe open."""


class BrokerGone(Exception):
    """The broker ended before it answered."""


class FaultPipe:
    """The test kit's end of the pipes to one broker process: commands about faults out, reports in.

    Made by Faults for each start of a broker. `call` is used on the threads of the test; a thread of its own,
    `barnabas-fault-reports`, reads until the broker ends, and calls `on_report` for every report, in order. `_changed`
    guards the answers and the end. The pipes have no name: only the child process inherits the other ends. The broker's
    side is `barnabas.faults.control_channel`.
    """

    def __init__(self, on_report: Callable[[Report], None]) -> None:
        commands_out, self._commands = os.pipe()
        reports_in, reports_back = os.pipe()
        self.child_descriptors: tuple[int, ...] = (commands_out, reports_back)
        """The broker's ends: the process has to inherit them, under these numbers."""
        self._reports: BinaryIO = os.fdopen(reports_in, "rb")
        self._on_report = on_report
        self._changed = threading.Condition(threading.Lock())
        self._answers: dict[int, Report] = {}
        self._has_ended = False
        self._reader = threading.Thread(target=self._read_reports, name="barnabas-fault-reports", daemon=True)

    def child_has_started(self) -> None:
        """Close the ends that the broker has inherited, and read what it reports."""
        self._close_child_ends()
        self._reader.start()

    def send(self, command: Command) -> None:
        """Send a command without waiting for its answer. Raises BrokerGone if the broker has ended."""
        line = memoryview(encode_command(command))
        try:
            while line:
                line = line[os.write(self._commands, line) :]
        except OSError as error:
            raise BrokerGone(str(error)) from error

    def call(self, command: Command) -> Report:
        """Send a command and wait for its answer.

        Raises BrokerGone if the broker ends first, TimeoutError if it does not answer, as a paused one does not.
        """
        self.send(command)
        with self._changed:
            self._changed.wait_for(lambda: self._has_ended or command.number in self._answers, ANSWER_SECONDS)
            report = self._answers.pop(command.number, None)
            has_ended = self._has_ended
        if report is not None:
            return report
        if has_ended:
            raise BrokerGone("it ended before it answered")
        raise TimeoutError(f"the broker did not answer a command about faults within {ANSWER_SECONDS} s")

    def close(self) -> None:
        """Close the pipes once the broker has ended, after the last report was read."""
        self._close_child_ends()
        if self._commands >= 0:
            os.close(self._commands)
            self._commands = -1
        if self._reader.ident is None:
            self._reports.close()
        else:
            # The reader comes to the end of its pipe, because the process that could write to it has ended.
            self._reader.join(END_SECONDS)

    def _close_child_ends(self) -> None:
        for descriptor in self.child_descriptors:
            os.close(descriptor)
        self.child_descriptors = ()

    def _read_reports(self) -> None:
        with self._reports:
            for line in self._reports:
                report = decode_report(line)
                # First the counts: a caller that has its answer may read them at once.
                self._on_report(report)
                if report.answers is not None:
                    with self._changed:
                        self._answers[report.answers] = report
                        self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
