"""The test kit's end of the pipes to one broker process: commands about faults out, reports in.

Made by `Faults` for each start of a broker. `call` is used on the threads of the test; a thread of its own,
`barnabas-fault-reports`, reads until the broker ends. `_changed` guards the answers and the end. The pipes have no
name: only the child process inherits the other ends. The broker's side is `barnabas.faults.control_channel`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import BinaryIO, Final

from barnabas.faults.control_messages import Command, Report, decode_report, encode_command

ANSWER_SECONDS: Final = 30.0
END_SECONDS: Final = 5.0
"""How long the last reports are awaited: a process that the broker has started may keep the pipe open."""


class BrokerGone(Exception):
    """The broker ended before it answered."""


class FaultPipe:
    """Both pipes. on_report: called on the reading thread for every report, in order."""

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
