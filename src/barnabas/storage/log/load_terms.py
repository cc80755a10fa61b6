"""The facts known of a log before its directory is opened. Immutable; made by LogDirectory, read by the loader."""

from __future__ import annotations

from typing import NamedTuple


class LoadTerms(NamedTuple):
    """The entries of the checkpoints about a log, and whether its log directory was closed in order."""

    had_clean_shutdown: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
