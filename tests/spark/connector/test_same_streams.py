"""Streaming queries of Spark's Kafka connector and of our source: the same micro-batches over the same history."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.errors import PySparkException

from tests.spark.connector.comparison import filled_in, reason
from tests.spark.connector.topics import ComparedTopics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(300)]

TOPICS = ("plain", "half", "transactions", "open", "compacted", "trimmed", "empty")
_SOURCES = ("kafka", "barnabas")
_LOSSES = ("Some data may have been lost|may have been missed|was changed from|are gone", "failOnDataLoss")

Step = Callable[[ComparedTopics, str], None]
Batches = list[list[tuple[Any, ...]]]


class Run(NamedTuple):
    """The micro-batches of one run until nothing is left, the offsets at its end, or the reason of its failure."""

    batches: Batches
    end: Any
    error: str | None


class Stream(NamedTuple):
    """A streaming query, and what happens to its topic between its runs. `@` alone is the topic of the query."""

    name: str
    options: Mapping[str, str]
    steps: Sequence[Step] = ()
    topic: str | None = None
    """A topic that is there; None: one of the query's own, of two partitions, with the first 20 records."""
    fails: tuple[str, str] | None = None
    """Expressions for the messages, the connector's and ours, of the last run."""


def _more(topics: ComparedTopics, short: str) -> None:
    topics.produce(short, 2, range(20, 50))


def _more_partitions(topics: ComparedTopics, short: str) -> None:
    topics.add_partitions(short, 3)
    topics.produce(short, 3, range(20, 50))


def _less(topics: ComparedTopics, short: str) -> None:
    topics.produce(short, 2, range(20, 50))
    topics.delete_before(short, {0: 15})


def _recreated_with_less(topics: ComparedTopics, short: str) -> None:
    topics.create_again(short, 2)
    topics.produce(short, 2, range(6))


def _recreated_with_more(topics: ComparedTopics, short: str) -> None:
    topics.create_again(short, 2)
    topics.produce(short, 2, range(60))


def _deleted(topics: ComparedTopics, short: str) -> None:
    topics.delete(short)


_EARLIEST = {"startingOffsets": "earliest"}
_GOES_ON = {"startingOffsets": "earliest", "failOnDataLoss": "false"}

STREAMS = (
    Stream("from the earliest", _EARLIEST, [_more]),
    Stream("from the latest", {}, [_more]),
    Stream("from the latest, said", {"startingOffsets": "latest"}, [_more]),
    Stream("from offsets", {"startingOffsets": '{"@":{"0":3,"1":-1}}'}, [_more]),
    Stream("from a time", {"startingTimestamp": "#7"}, [_more]),
    Stream("from times", {"startingOffsetsByTimestamp": '{"@":{"0":#3,"1":#12}}'}),
    Stream("from a time after all", {"startingTimestamp": "#90", "startingOffsetsByTimestampStrategy": "latest"},
           [_more]),
    Stream("a limit", {**_EARLIEST, "maxOffsetsPerTrigger": "7"}, [_more]),
    Stream("a limit of one", {**_EARLIEST, "maxOffsetsPerTrigger": "1"}, topic="half"),
    Stream("a limit over three partitions", {**_EARLIEST, "maxOffsetsPerTrigger": "100"}, topic="plain"),
    Stream("a limit in gaps", {**_EARLIEST, "maxOffsetsPerTrigger": "30"}, topic="compacted"),
    Stream("a limit that is not reached", {**_EARLIEST, "maxOffsetsPerTrigger": "1000"}, [_more]),
    Stream("headers", {**_EARLIEST, "includeHeaders": "true"}, topic="plain"),
    Stream("tasks", {**_EARLIEST, "minPartitions": "5"}, topic="plain"),
    Stream("tasks of few records", {**_EARLIEST, "maxRecordsPerPartition": "9"}, topic="plain"),
    Stream("committed", {**_EARLIEST, "kafka.isolation.level": "read_committed"}, topic="transactions"),
    Stream("committed, a limit", {**_EARLIEST, "kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": "9"},
           topic="transactions"),
    Stream("uncommitted", _EARLIEST, topic="transactions"),
    Stream("before an open transaction", {**_EARLIEST, "kafka.isolation.level": "read_committed"}, topic="open"),
    Stream("behind deleted records", _EARLIEST, topic="trimmed"),
    Stream("an empty topic", _EARLIEST, topic="empty"),
    Stream("assigned", {**_EARLIEST, "assign": '{"@":[1]}'}, [_more]),
    Stream("by a pattern", {**_EARLIEST, "subscribePattern": "^@$"}, [_more]),
    Stream("new partitions", _EARLIEST, [_more_partitions]),
    Stream("new partitions, from the latest", {}, [_more_partitions]),
    Stream("records deleted between runs", _EARLIEST, [_less], fails=(_LOSSES[0], _LOSSES[1])),
    Stream("records deleted between runs, going on", _GOES_ON, [_less]),
    Stream("created again with less", _EARLIEST, [_recreated_with_less], fails=(_LOSSES[0], _LOSSES[1])),
    Stream("created again with less, going on", _GOES_ON, [_recreated_with_less]),
    Stream("created again with more", _EARLIEST, [_recreated_with_more]),
    Stream("deleted between runs", _EARLIEST, [_deleted], fails=("UnknownTopicOrPartition", "UNKNOWN_TOPIC_OR_PART")),
    Stream("an end", {**_EARLIEST, "endingOffsets": "latest"},
           fails=("ending ?offset.* not valid", "not valid in a streaming")),
    Stream("an end by times", {**_EARLIEST, "endingOffsetsByTimestamp": '{"@":{"0":#3,"1":#12}}'},
           fails=("ending ?offset.* not valid|ending ?timestamp.* not valid", "not valid in a streaming")),
    Stream("a minimum above the maximum", {**_EARLIEST, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
           fails=("minOffsetPerTrigger.*higher than", "'minOffsetsPerTrigger' is '9'; it must be at most")),
    Stream("offsets of other partitions", {"startingOffsets": '{"@":{"0":3}}'},
           fails=("Specified: Set.*Assigned: Set", "1 is missing")),
    Stream("a start behind the end", {"startingOffsets": '{"@":{"0":3,"1":900}}'},
           fails=(_LOSSES[0], "gives 900 for .*, which ends at offset 10")),
)  # fmt: skip


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_the_same_batches(connector: SparkSession, topics: ComparedTopics, tmp_path: Path, stream: Stream) -> None:
    short = stream.topic
    if short is None:
        short = "own-" + re.sub("[^a-z]", "-", stream.name)
        topics.create(short, 2)
        topics.produce(short, 2, range(20))
    given = {name: value.replace("@", f"@{short}") for name, value in stream.options.items()}
    if not {"assign", "subscribePattern"} & given.keys():
        given["subscribe"] = f"@{short}"
    options = {name: filled_in(value, topics) for name, value in given.items()}
    options |= {"kafka.bootstrap.servers": topics.bootstrap_servers, "kafkaConsumer.pollTimeoutMs": "5000"}
    # Equal first answers are needed for "latest": both sources start before the history goes on.
    for number in range(len(stream.steps) + 1):
        if number:
            stream.steps[number - 1](topics, short)
        theirs, ours = (run(connector, name, options, tmp_path / name) for name in _SOURCES)
        if stream.fails is None or number < len(stream.steps):
            assert (theirs.error, ours.error) == (None, None)
            assert ours.batches == theirs.batches
            assert ours.end == theirs.end
        else:
            assert theirs.error is not None
            assert ours.error is not None
            assert re.search(stream.fails[0], theirs.error, re.DOTALL | re.IGNORECASE), theirs.error
            assert re.search(stream.fails[1], ours.error, re.DOTALL), ours.error


def run(spark: SparkSession, source: str, options: Mapping[str, str], checkpoint: Path) -> Run:
    """Run the query until nothing is left."""
    batches: Batches = []

    def take(frame: DataFrame, _batch_id: int) -> None:
        found = frame.select("topic", "partition", "offset", "key", "value").collect()
        batches.append(sorted((tuple(row) for row in found), key=repr))

    try:
        query = (
            spark.readStream.format(source)
            .options(**options)
            .load()
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", os.fspath(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    except PySparkException as error:
        return Run(batches, None, reason(error))
    progress = query.recentProgress
    end = json.loads(progress[-1].sources[0].endOffset) if progress else None
    # One of the two may run a micro-batch without rows, to note new partitions.
    return Run([batch for batch in batches if batch], end, None)
