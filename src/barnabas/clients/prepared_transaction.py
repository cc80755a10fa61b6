"""A transaction whose records are all written, and which any client may end now. An immutable value.

Made by `Producer.prepare_transaction`, taken by `Admin.end_transaction`.
"""

from __future__ import annotations

from typing import NamedTuple


class PreparedTransaction(NamedTuple):
    """An open transaction, by the identity of its producer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_version_2: bool = False
    """Whether it was begun under transaction.version 2, whose end raises the producer's epoch."""
