"""A topic whose end moves on at every question, and the options of a source that reads it: no broker, no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.options.source_options import SourceOptions
from barnabas_spark.topic_offsets import Offsets

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeBroker:
    """Topic `t` with two partitions, whose end moves on at every question."""

    def __init__(self) -> None:
        self.end = 100

    def topics(self) -> list[str]:
        return ["other", "t", "tt"]

    def partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        assert list(topics) == ["t"]
        return [T0, T1]

    def latest_from(self, known: Offsets, partitions: Sequence[TopicPartition]) -> Offsets:
        return self.latest(partitions)

    def at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int]) -> Offsets:
        """Offset 50 is of the millisecond 1000, and the youngest."""
        return {partition: 50 if timestamp_ms <= 1_000 else -1 for partition, timestamp_ms in timestamps_ms.items()}

    def earliest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        return dict.fromkeys(partitions, 5)

    def latest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        self.end += 1
        return dict.fromkeys(partitions, self.end)


def options(streaming: bool = True, **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": "h:1", **more}
    if not {"assign", "subscribePattern"} & more.keys():
        given["subscribe"] = "t"
    return SourceOptions.parse(given, streaming=streaming)
