"""The first micro-batch of a stream, planned again after it has failed: its start is the one that was found first.

Without Spark: these tests call the reader in the order in which Spark does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.columns import default_schema
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.options.source_options import DataLoss
from barnabas_spark.reading import stream_reader
from barnabas_spark.reading.offset_ranges import OffsetRange
from barnabas_spark.reading.starting_offsets import TopicMissing
from barnabas_spark.reading.stream_reader import BarnabasStreamReader
from barnabas_spark.topic_offsets import Offsets, planned_offsets, start_in, with_start

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t.u", 0)


class Broker:
    """Topics whose partitions have 10 records, beginning at offset 2."""

    def __init__(self, *partitions: TopicPartition) -> None:
        self.ends = dict.fromkeys(partitions, 12)

    def topics(self) -> list[str]:
        return sorted({partition.topic for partition in self.ends})

    def partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        for topic in topics:
            if topic not in self.topics():
                raise TopicMissing(topic)
        return sorted(partition for partition in self.ends if partition.topic in topics)

    def earliest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        return dict.fromkeys(partitions, 2)

    def latest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        return {partition: self.ends[partition] for partition in partitions}

    def latest_from(self, known: Offsets, partitions: Sequence[TopicPartition]) -> Offsets:
        return self.latest(partitions)

    def at_least_read(self, known: Offsets, ends: Offsets) -> Offsets:
        return ends

    def at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int]) -> Offsets:
        return dict.fromkeys(timestamps_ms, 7)


class Query:
    """Spark's side of a query: its log of offsets, which outlives the reader."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, broker: Broker, **options: str) -> None:
        class Connections:
            def offsets(self, _options: Any) -> Broker:
                return broker

        monkeypatch.setattr(stream_reader, "connections", Connections())
        self._options = {"kafka.bootstrap.servers": "h:1", **options}
        self.planned: list[str] = []
        self.finished = 0
        self.is_available_now = False

    def restart(self) -> None:
        """Begin with a new process, as every start of the query does."""
        self._reader = BarnabasStreamReader(self._options, default_schema(include_headers=False))
        if self.is_available_now:
            self._reader.prepareForTriggerAvailableNow()

    def _start(self) -> dict[str, Any]:
        # Spark keeps texts.
        if self.finished:
            return cast("dict[str, Any]", json.loads(self.planned[self.finished - 1]))
        return cast("dict[str, Any]", json.loads(json.dumps(self._reader.initialOffset())))

    def plan(self, limit: ReadLimit | None = None) -> bool:
        """Plan the next micro-batch, unless there is nothing new or one is planned already."""
        if len(self.planned) > self.finished:
            return True
        start = self._start()
        end = json.dumps(self._reader.latestOffset(start, ReadAllAvailable() if limit is None else limit))
        if self.planned and end == self.planned[-1]:
            return False
        self.planned.append(end)
        return True

    def ranges(self) -> list[OffsetRange]:
        """What the planned micro-batch reads."""
        start, end = self._start(), json.loads(self.planned[self.finished])
        return [each for task in self._reader.partitions(start, end) for each in cast("Any", task).value]

    def finish(self) -> None:
        self.finished += 1


def planned_query(monkeypatch: pytest.MonkeyPatch, broker: Broker, **options: str) -> Query:
    """A query whose first micro-batch is planned and has failed."""
    query = Query(monkeypatch, broker, **options)
    query.restart()
    assert query.plan()
    query.ranges()
    return query


def test_partitions_that_were_added_since_are_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(T0)
    query = planned_query(monkeypatch, broker, subscribePattern="^t", startingOffsets="earliest")
    broker.ends |= {T1: 12, U0: 12}
    query.restart()
    assert query.ranges() == [OffsetRange(*T0, 2, 12)]
    query.finish()
    # They are read from their first record on, by the next micro-batch.
    assert query.plan()
    assert query.ranges() == [OffsetRange(*T1, 2, 12), OffsetRange(*U0, 2, 12)]
    query.finish()
    assert not query.plan()


def test_latest_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(T0)
    query = Query(monkeypatch, broker, subscribe="t")
    query.restart()
    assert query.plan()
    assert query.ranges() == []
    broker.ends[T0] = 15
    # Whether the empty first micro-batch is finished or not, what has come since is the next one.
    query.restart()
    assert query.ranges() == []
    query.finish()
    assert query.plan()
    assert query.ranges() == [OffsetRange(*T0, 12, 15)]
    query.restart()
    assert query.ranges() == [OffsetRange(*T0, 12, 15)]
    assert start_in(json.loads(query.planned[1])) is None


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"startingOffsets": '{"t": {"0": 4}}'}, 4),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 1000}}'}, 7),
        ({"startingTimestamp": "1000"}, 7),
    ],
)
def test_options_that_do_not_fit_any_more_are_not_asked(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], start: int
) -> None:
    broker = Broker(T0)
    query = planned_query(monkeypatch, broker, subscribe="t", **options)
    broker.ends[T1] = 12
    query.restart()
    assert query.ranges() == [OffsetRange(*T0, start, 12)]


def test_options_that_do_not_fit_a_new_query_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(monkeypatch, Broker(T0, T1), subscribe="t", startingOffsets='{"t": {"0": 4}}')
    query.restart()
    for _ in range(2):
        with pytest.raises(OptionError, match="t-1 is missing"):
            query.plan()


def test_what_is_gone_is_still_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(T0, T1)
    query = planned_query(monkeypatch, broker, subscribe="t", startingOffsets="earliest")
    query.finish()
    del broker.ends[T1]
    query.restart()
    broker.ends[T0] = 15
    assert query.plan()
    with pytest.raises(DataLoss, match="partition t-1 is gone; it was read up to offset 12"):
        query.ranges()


@pytest.mark.parametrize("start", ["latest", '{"t": {"0": -1}}'])
def test_the_end_of_an_available_now_query_is_noted_before_its_start(
    monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    broker = Broker(T0)
    query = Query(monkeypatch, broker, subscribe="t", startingOffsets=start)
    query.is_available_now = True
    query.restart()
    # Between the two questions. An offset in JSON is for each partition that there is.
    broker.ends |= {T0: 15, T1: 12} if start == "latest" else {T0: 15}
    assert query.plan()
    assert query.ranges() == []
    query.finish()
    assert not query.plan()
    broker.ends |= {T1: 12}
    query.restart()
    assert query.plan()
    assert query.ranges() == [OffsetRange(*T1, 2, 12)]


def test_a_first_micro_batch_of_an_earlier_version_has_no_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is the one that was kept beside the checkpoint, or the one of today, without what was added since."""
    broker = Broker(T0, T1)
    query = Query(monkeypatch, broker, subscribe="t", startingOffsets="earliest")
    query.planned.append('{"t": {"0": 12}}')
    query.restart()
    assert query.ranges() == [OffsetRange(*T0, 2, 12)]
    (tmp_path / "starting-offsets.json").write_text('{"t": {"0": 9}}')
    query = Query(monkeypatch, broker, subscribe="t", startingOffsetsLocation=str(tmp_path))
    query.planned.append('{"t": {"0": 12}}')
    query.restart()
    assert query.ranges() == [OffsetRange(*T0, 9, 12)]


def test_a_start_is_beside_the_end_under_names_that_no_topic_has() -> None:
    planned = json.loads(json.dumps(with_start({T0: 12, U0: 3}, {T0: 2})))
    assert planned == {"t": {"0": 12}, "t.u": {"0": 3}, "(start) t": {"0": 2}}
    assert (planned_offsets(planned), start_in(planned)) == ({T0: 12, U0: 3}, {T0: 2})
    # A query by a pattern that matched nothing yet began too.
    assert start_in(with_start({T0: 12}, {})) == {}
    assert start_in({"t": {"0": 12}}) is None
