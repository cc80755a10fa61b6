"""The progress of a performance run: a line that is rewritten on a terminal, otherwise a line every interval.

A thread of its own writes to stderr, so that a producer that waits for memory does not stop the lines. Used by the
`perf` commands on the main thread.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Self

import click

from barnabas.cli.perf_counts import Figures, PerfCounts

_ERASE_LINE = "\r\x1b[K"


class Progress:
    """The lines of one run, as a context manager. `verb` is what happens to records: sent, read."""

    def __init__(self, counts: PerfCounts, verb: str, interval_seconds: float, *, has_latency: bool) -> None:
        self._counts = counts
        self._verb = verb
        self._interval_seconds = interval_seconds
        self._has_latency = has_latency
        self._is_terminal = sys.stderr.isatty()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="perf-progress", daemon=True)

    def line(self, figures: Figures) -> str:
        """Return the line of one interval."""
        text = (
            f"{figures.records:,} records {self._verb}, {figures.records_per_second:,.1f} records/sec"
            f" ({figures.megabytes_per_second:,.2f} MB/sec)"
        )
        if self._has_latency:
            text += f", {figures.average_latency_ms:,.1f} ms avg latency, {figures.max_latency_ms:,.1f} ms max latency"
        return text

    def _run(self) -> None:
        while not self._ended.wait(self._interval_seconds):
            line = self.line(self._counts.end_interval())
            click.echo(f"{_ERASE_LINE}{line}" if self._is_terminal else line, err=True, nl=not self._is_terminal)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._is_terminal:
            click.echo(_ERASE_LINE, err=True, nl=False)
