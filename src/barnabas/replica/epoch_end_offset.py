"""The end of a leader epoch in a leader's log: the answer to OffsetForLeaderEpoch.

Made by `Partition.last_offset_for_leader_epoch` on handler and processor threads; immutable, so no lock.
Kafka: OffsetForLeaderEpochResponseData.EpochEndOffset.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEndOffset(NamedTuple):
    """The largest epoch not above the requested one, and the offset behind it; -1 and -1 when the log knows neither."""

    error: ErrorCode = ErrorCode.NONE
    leader_epoch: int = UNDEFINED_EPOCH
    end_offset: int = UNDEFINED_EPOCH_OFFSET
