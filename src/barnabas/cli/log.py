"""`barnabas log`: looks into the files of a data directory. Needs no broker."""

from __future__ import annotations

import click


@click.group()
def log() -> None:
    """Look into log segments and indexes."""
