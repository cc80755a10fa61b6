"""The result of an append, and the errors of a refused one. Made by the log on the appending thread, which owns it.

Kafka: LogAppendInfo, AppendOrigin, LeaderHwChange.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.runtime.compiler_marks import mypyc_attr

if TYPE_CHECKING:
    from mypy_extensions import i64


class RecordError(NamedTuple):
    """A refused record: its index in the batch, and the reason (KIP-467)."""

    batch_index: int
    message: str | None


class AppendOrigin(Enum):
    """The sender of a batch; only clients are held to all rules."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class RefusedBatch(ApiError):
    """A batch that breaks a rule. counter: the validation counter of BrokerTopicStats that grows by `count`."""

    record_errors: Sequence[RecordError] = ()

    def __init__(self, code: ErrorCode, message: str, counter: str, count: int = 1) -> None:
        super().__init__(code, message)
        self.counter = counter
        self.count = count


class InvalidRecords(RefusedBatch):
    """A batch refused because of some of its records, which `record_errors` names; `count` of them have no key."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[RecordError], count: int = 0) -> None:
        super().__init__(code, message, "no_key_compacted_topic_records", count)
        self.record_errors = record_errors


class LogAppendInfo:
    """Offsets, times and sizes of one append.

    first_offset: -1 when nothing was appended. log_append_time_ms: -1 unless the topic stamps append time.
    valid_bytes: size of what was appended, as produced. conversion_ns: how long it took to rebuild the batch (another
    format or codec); 0 if that was not needed. is_duplicate: nothing was appended, because an idempotent producer had
    sent this batch before; offsets and time are those of that append. leader_hw_increased: whether the append moved
    the high watermark; set by the log, or by the partition that moves it afterwards.
    """

    __slots__ = (
        "conversion_ns",
        "first_offset",
        "is_duplicate",
        "last_offset",
        "leader_hw_increased",
        "log_append_time_ms",
        "log_start_offset",
        "max_timestamp",
        "record_count",
        "valid_bytes",
    )

    def __init__(
        self,
        first_offset: i64,
        last_offset: i64,
        max_timestamp: i64,
        log_append_time_ms: i64,
        log_start_offset: i64,
        valid_bytes: i64,
        record_count: i64,
        conversion_ns: i64 = 0,
        is_duplicate: bool = False,
    ) -> None:
        self.first_offset: i64 = first_offset
        self.last_offset: i64 = last_offset
        self.max_timestamp: i64 = max_timestamp
        self.log_append_time_ms: i64 = log_append_time_ms
        self.log_start_offset: i64 = log_start_offset
        self.valid_bytes: i64 = valid_bytes
        self.record_count: i64 = record_count
        self.conversion_ns: i64 = conversion_ns
        self.is_duplicate = is_duplicate
        self.leader_hw_increased = False

    def __repr__(self) -> str:
        return (
            f"LogAppendInfo(offsets {self.first_offset}-{self.last_offset}, {self.record_count} records,"
            f" {self.valid_bytes} bytes, max timestamp {self.max_timestamp})"
        )


@mypyc_attr(allow_interpreted_subclasses=True)
class AppendGate:
    """Admits batches of a leader to a log, under the log's lock, before anything changes. This one admits all."""

    __slots__ = ()

    def admits(self, leader_epoch: int) -> bool:
        """Return whether a batch of this leader epoch is committed once it is appended.

        Then the high watermark rises with the end. Raises ApiError: to refuse the append.
        """
        return True
