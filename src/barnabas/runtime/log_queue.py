"""Logging that cannot stop the broker: lines go through a bounded queue to one writer thread.

Set up by the command line. Any thread logs: it formats its line and puts it into the queue. When the queue is full
(stderr is a pipe that is not read) the line is dropped and counted. The writer thread `log-writer` owns the stream. The
queue is the only thing shared; a lock guards the count of drops. Kafka: none; log4j's appenders block.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import TextIO

DEFAULT_CAPACITY_LINES = 10_000
LINE_FORMAT = "%(asctime)s %(levelname)s [%(threadName)s] %(message)s (%(name)s)"


class LogQueue(logging.Handler):
    """A logging handler whose `emit` never waits for the stream."""

    def __init__(self, stream: TextIO, capacity_lines: int = DEFAULT_CAPACITY_LINES) -> None:
        super().__init__()
        self._stream = stream
        self._capacity_lines = capacity_lines
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._count_lock = threading.Lock()
        self._dropped = 0
        self._dropped_and_reported = 0
        self._writer = threading.Thread(target=self._write_lines, name="log-writer", daemon=True)
        self.setFormatter(logging.Formatter(LINE_FORMAT))

    @property
    def dropped(self) -> int:
        """The number of lines dropped so far because the queue was full."""
        with self._count_lock:
            return self._dropped

    def start(self) -> None:
        """Start the writer. Lines that were logged before are in the queue."""
        self._writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one formatted line, or count it as dropped."""
        # The test comes before formatting, which is most of the cost: a flood of lines must not slow the threads that
        # log.
        if self._lines.qsize() >= self._capacity_lines:
            with self._count_lock:
                self._dropped += 1
            return
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 a wrong format argument must not end the caller; logging reports it
            self.handleError(record)
        else:
            self._lines.put(line)

    def stop(self, timeout_seconds: float = 2.0) -> None:
        """Write what is queued and end the writer. Gives up after the timeout: a full pipe may never be read."""
        if self._writer.ident is not None:
            self._lines.put(None)
            self._writer.join(timeout_seconds)

    def _write_lines(self) -> None:
        while (line := self._lines.get()) is not None:
            self._write(line)
            self._report_drops()
        self._report_drops()

    def _report_drops(self) -> None:
        with self._count_lock:
            newly_dropped = self._dropped - self._dropped_and_reported
            self._dropped_and_reported = self._dropped
        if newly_dropped:
            self._write(f"{newly_dropped} log lines dropped: the log stream did not keep up")

    def _write(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # The stream is gone (closed pipe, full disk): there is nowhere left to report it, hence the count.
            with self._count_lock:
                self._dropped += 1
                self._dropped_and_reported += 1
