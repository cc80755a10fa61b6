"""The error of an Iceberg sink.

Raised by the modules of this package; turned into a line of the pipeline file by `plan` and `run`; no state, no lock.
"""

from __future__ import annotations


class IcebergError(Exception):
    """An Iceberg table that cannot be written as the pipeline asks. The message says why, and what would do."""
