"""The demo's progress: bars on a terminal, and a line every few seconds elsewhere.

Made by the command line, used by `demo` from the main thread and from the producer's; a `Task` is advanced by one
thread at a time, and rich has its own lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

_QUIET_SECONDS = 3.0


class Task(Protocol):
    """One piece of work with its progress."""

    def advance_to(self, completed: int, note: str = "") -> None:
        """Show the number of completed steps, with a note."""

    def finish(self, note: str) -> None:
        """Show that the task is done."""


class Display:
    """A display of tasks and text on a copy of standard output, which itself is redirected while Spark starts."""

    def __init__(self, console: Console | None = None) -> None:
        if console is None:
            console = Console(file=os.fdopen(os.dup(1), "w", encoding="utf-8"), highlight=False)
        self.console = console
        self._progress: Progress | None = None

    @contextmanager
    def live(self) -> Iterator[None]:
        """Draw tasks as bars while the context is open, if this is a terminal."""
        if not self.console.is_terminal:
            yield
            return
        columns = (
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description:<34}"),
            BarColumn(28),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[note]}[/]"),
        )
        with Progress(*columns, console=self.console, refresh_per_second=8) as progress:
            self._progress = progress
            try:
                yield
            finally:
                self._progress = None

    def task(self, description: str, total: int = 1) -> Task:
        """Return a piece of work of `total` steps."""
        if self._progress is None:
            return _LineTask(self.console, description, total)
        return _BarTask(self._progress, self._progress.add_task(description, total=total, note=""), total)

    def say(self, text: str) -> None:
        """Print one or more lines."""
        self.console.print(text, soft_wrap=True)


class _BarTask:
    def __init__(self, progress: Progress, task_id: TaskID, total: int) -> None:
        self._progress = progress
        self._task_id = task_id
        self._total = total

    def advance_to(self, completed: int, note: str = "") -> None:
        self._progress.update(self._task_id, completed=completed, note=note)

    def finish(self, note: str) -> None:
        self._progress.update(self._task_id, completed=self._total, note=note)


class _LineTask:
    def __init__(self, console: Console, description: str, total: int) -> None:
        self._console = console
        self._description = description
        self._total = total
        self._shown_at = time.monotonic()
        self._console.print(f"{description} ...", soft_wrap=True)

    def advance_to(self, completed: int, note: str = "") -> None:
        if time.monotonic() - self._shown_at >= _QUIET_SECONDS:
            self._shown_at = time.monotonic()
            self._console.print(f"{self._description}: {completed:,} of {self._total:,}  {note}", soft_wrap=True)

    def finish(self, note: str) -> None:
        self._console.print(f"{self._description}: done  {note}", soft_wrap=True)
