"""Prints rows as a table on a terminal and as plain lines with tabs into a pipe; `--json` prints an object instead.

Used by the commands that show lists, on the main thread.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence

import click

json_option = click.option("--json", "as_json", is_flag=True, help="The result as one JSON object.")


def print_json(result: object) -> None:
    """Print a result as one line of JSON."""
    click.echo(json.dumps(result))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print `rows`, each with a cell for every column."""
    if not sys.stdout.isatty():
        # Every cell goes out with its column's name, so that scripts do not depend on the order of columns.
        for row in rows:
            click.echo("\t" + "\t".join(f"{column} {cell}" for column, cell in zip(columns, row, strict=True)))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=True, header_style="bold")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
