"""The errors of reading a log without its broker. Raised by this package and its callers; no state, no lock."""

from __future__ import annotations

from barnabas.protocol.topic_partition import TopicPartition


class LogUnreadable(Exception):
    """A log cannot be read as asked. The text names the topic, the partition, the offset and the file."""


class RecordsDeleted(LogUnreadable):
    """Records that were to be read are gone: retention or a deletion removed them after the read was planned."""


class BeyondLogEnd(LogUnreadable):
    """An offset lies outside of the log."""


def unreadable(topic_partition: TopicPartition, offset: int, path: str, reason: object) -> LogUnreadable:
    """Return the error for a place in a log."""
    return LogUnreadable(f"{topic_partition}, offset {offset}, {path}: {reason}")
