"""Shows a run: a table that is redrawn on a terminal, and a line for each query every few seconds elsewhere.

Made by the command line. `update` is called on the main thread, `show_rows` on Spark's threads for micro-batches; rich
has its own lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame
from rich.console import Console
from rich.live import Live
from rich.table import Table

from barnabas_spark.pipeline.streaming_query import QueryProgress

_QUIET_SECONDS = 3.0


class RunDisplay:
    """The display of one run, on a copy of standard output, which itself is redirected while Spark starts."""

    def __init__(self, console: Console | None = None) -> None:
        if console is None:
            console = Console(file=os.fdopen(os.dup(1), "w", encoding="utf-8"), highlight=False)
        self._console = console
        self._live: Live | None = None
        self._shown: dict[str, int] = {}
        self._shown_at = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, soft_wrap=True, markup=False)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Redraw the table while the context is open, if this is a terminal."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False) as self._live:
            yield
        self._live = None

    def update(self, queries: Sequence[QueryProgress], *, is_last: bool = False) -> None:
        """Show what the queries have done. The last time, every query is shown."""
        if self._live is not None:
            self._live.update(_table(queries), refresh=True)
        elif is_last or time.monotonic() - self._shown_at >= _QUIET_SECONDS:
            self._shown_at = time.monotonic()
            for query in queries:
                if is_last or self._shown.get(query.name) != query.last_batch:
                    self._shown[query.name] = query.last_batch
                    self.say(
                        f"{query.name}: {query.batches} micro-batches, {query.rows:,} rows,"
                        f" {query.rows_per_second:,.0f}/s, lag {query.lag:,}"
                    )

    def show_rows(self, sink: str, batch: int, rows: DataFrame, limit: int) -> None:
        """Print the first rows of a micro-batch."""
        found = rows.limit(limit + 1).collect()
        table = Table(*rows.columns, title=f"{sink}, micro-batch {batch}")
        for row in found[:limit]:
            table.add_row(*["" if value is None else str(value) for value in row])
        if found:
            self._console.print(table)
        if len(found) > limit:
            self.say(f"only the first {limit} rows are shown")


def _table(queries: Sequence[QueryProgress]) -> Table:
    table = Table("query", "writes")
    for name in ("micro-batches", "rows", "rows/s", "lag"):
        table.add_column(name, justify="right")
    for query in queries:
        counts = (f"{query.batches:,}", f"{query.rows:,}", f"{query.rows_per_second:,.0f}", f"{query.lag:,}")
        table.add_row(query.name, query.what, *counts)
    return table
