"""The broker's end of the pipes through which the test kit installs faults and learns their counts.

Made by `fault_layer` from two file descriptors that the process inherited. There is no name, port or address by which
any other process could reach them. Two threads: `fault-commands` reads and executes, `fault-reports` writes. A hit only
sets a flag, so the thread of a request never waits for a pipe; a report has all changes since the one before.
`_changed` guards what is to be reported, `_write_lock` the pipe and the order of reports.

When the pipe of the commands ends, the test kit has closed it or has died: every fault is removed. So they are if the
thread of the commands fails, because no command could remove them.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections import deque
from collections.abc import Collection
from typing import BinaryIO, NamedTuple

from barnabas.config.config_error import ConfigError
from barnabas.faults.control_messages import Command, Report, decode_command, encode_report
from barnabas.faults.fault_table import FaultTable
from barnabas.protocol.api_keys import ApiKey

logger = logging.getLogger(__name__)


class PipeEnds(NamedTuple):
    """The inherited descriptors: commands come in by one, reports go out by the other."""

    commands: int
    reports: int


class _Answer(NamedTuple):
    """The answer that a command is to get."""

    number: int
    error: str | None


def inherited_pipes(text: str) -> PipeEnds:
    """Take over the descriptors that `text` names (`5:8`), which must be pipes, and hide them from child processes.

    Raises ValueError when they are not two open pipes.
    """
    numbers = text.split(":")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise ValueError(f"two file descriptors are expected, such as 5:8, not {text!r}")
    ends = PipeEnds(int(numbers[0]), int(numbers[1]))
    for descriptor in ends:
        try:
            is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        except (OSError, OverflowError) as error:
            raise ValueError(f"file descriptor {descriptor} is not open: {error}") from error
        if not is_pipe:
            raise ValueError(f"file descriptor {descriptor} is no pipe")
        os.set_inheritable(descriptor, False)
    return ends


class ControlChannel:
    """The two threads and what they share.

    served: the APIs that faults may be for. own_client_id: that of the broker's requests to itself, which none hits.
    """

    def __init__(self, ends: PipeEnds, table: FaultTable, served: Collection[ApiKey], own_client_id: str) -> None:
        self._commands: BinaryIO = os.fdopen(ends.commands, "rb")
        self._reports_descriptor = ends.reports
        self._table = table
        self._served = served
        self._own_client_id = own_client_id
        self._changed = threading.Condition(threading.Lock())
        self._has_changed = False
        self._answers: deque[_Answer] = deque()
        self._write_lock = threading.Lock()

    def execute_first(self) -> None:
        """Execute the command that installs the faults of the start, before any request is read.

        Raises ConfigError when the command does not come or is rejected.
        """
        line = self._read_line()
        if not line:
            raise ConfigError("the test kit closed the pipe of the fault plans before the broker had started")
        answer = self._answer_to(line)
        if answer.error is not None:
            raise ConfigError(f"the fault plans cannot be installed: {answer.error}")
        self._answer(answer)

    def start(self) -> None:
        """Start both threads."""
        self._table.on_change = self._note_change
        for name, run in (("fault-commands", self._execute_commands), ("fault-reports", self._write_reports)):
            threading.Thread(target=run, name=name, daemon=True).start()

    def report_now(self) -> None:
        """Write the counts before this call returns: the process is about to end."""
        self._report(None)

    # -- commands

    def _execute_commands(self) -> None:
        try:
            while line := self._read_line():
                self._answer(self._answer_to(line))
        finally:
            self._table.remove_all()

    def _read_line(self) -> bytes:
        """Return the next line, or nothing when the pipe has ended or a line is not whole."""
        line = self._commands.readline()
        return line if line.endswith(b"\n") else b""

    def _answer_to(self, line: bytes) -> _Answer:
        try:
            command = decode_command(line)
        except (ValueError, TypeError, KeyError) as error:
            # Without a number there is no command to answer: 0 is the number of none.
            return _Answer(0, f"not a command: {error!r}")
        refusal = self._refusal(command)
        if refusal is None:
            self._table.remove(command.remove)
            self._table.install(command.install)
        return _Answer(command.number, refusal)

    def _refusal(self, command: Command) -> str | None:
        for fault in command.install:
            missing = [key.name for key in fault.plan.apis if key not in self._served]
            if missing:
                return f"this broker does not serve {', '.join(missing)}"
            if fault.plan.client_id == self._own_client_id:
                return (
                    f"no fault hits requests with the client id {self._own_client_id!r}: by this one, the broker speaks"
                    " to itself"
                )
        return None

    # -- reports

    def _note_change(self) -> None:
        with self._changed:
            self._has_changed = True
            self._changed.notify()

    def _answer(self, answer: _Answer) -> None:
        with self._changed:
            self._answers.append(answer)
            self._changed.notify()

    def _write_reports(self) -> None:
        while True:
            with self._changed:
                while not self._has_changed and not self._answers:
                    self._changed.wait()
                answers, self._answers, self._has_changed = list(self._answers), deque(), False
            written = [self._report(answer) for answer in answers] or [self._report(None)]
            if not all(written):
                return

    def _report(self, answer: _Answer | None) -> bool:
        """Write a report. Returns False when the test kit no longer reads."""
        number, error = (None, None) if answer is None else answer
        try:
            # The changes are taken under the lock. Otherwise a Kill could end the process after this thread has taken
            # some and before it has written them.
            with self._write_lock:
                line = memoryview(encode_report(Report(self._table.take_changes(), number, error)))
                while line:
                    line = line[os.write(self._reports_descriptor, line) :]
        except OSError as failure:
            logger.info("the test kit no longer reads the counts of faults: %s", failure)
            return False
        return True
