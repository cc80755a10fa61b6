"""The batch queries that Spark's Kafka connector and our source answer: options, and the query on the rows.

In texts `@name` is the real name of a topic of `topics`, and `#12` the time of its record 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

TRANSACTIONAL = ("transactions", "only-aborted", "open")
EACH_TOPIC = (
    "plain", "codec-none", "codec-gzip", "codec-snappy", "codec-lz4", "codec-zstd", "empty", "half", "wide", "trimmed",
    "emptied", "recreated", "append-time", "long", "nulls", "compacted", *TRANSACTIONAL,
)  # fmt: skip


class Messages(NamedTuple):
    """Expressions that the messages of errors must match. None: no error, but rows."""

    theirs: str | None
    ours: str


class Query(NamedTuple):
    """One query. Without a choice of topics among the options, `topic` is subscribed to."""

    name: str
    topic: str
    options: Mapping[str, str]
    columns: tuple[str, ...] = ()
    """The columns that are asked for; none: all."""
    condition: str | None = None
    counts_tasks: bool = False
    """Whether the number of tasks is compared too."""
    ours: Mapping[str, str] = {}
    """Options of our source alone."""
    fails: Messages | None = None
    """None: both answer with rows."""
    differs: str | None = None
    """The reason for which the two answer with other rows or tasks, on purpose; docs/spark.md has it."""


def _all_of(topic: str) -> Query:
    return Query(f"all of {topic}", topic, {"includeHeaders": "true"})


def _committed(topic: str) -> Query:
    return Query(f"committed of {topic}", topic, {"includeHeaders": "true", "kafka.isolation.level": "read_committed"})


WHOLE_TOPICS = (*map(_all_of, EACH_TOPIC), *map(_committed, (*TRANSACTIONAL, "plain", "compacted")))

COLUMNS = tuple(
    Query(f"columns {', '.join(columns)} of {topic}", topic, {"includeHeaders": "true"}, columns)
    for topic, columns in (
        ("plain", ("value",)),
        ("plain", ("key",)),
        ("plain", ("headers",)),
        ("plain", ("offset", "topic", "partition")),
        ("plain", ("timestamp", "timestampType")),
        ("plain", ("cast(value as string) text", "length(key) size")),
        ("plain", ("map_from_entries(coalesce(headers, array())) found",)),
        ("nulls", ("value", "key")),
        ("half", ("count(1)",)),
        ("plain", ("count(value)", "sum(length(value))", "max(offset)", "min(timestamp)")),
    )
)

_CONDITIONS = (
    "partition = 1",
    "partition in (0, 2)",
    "offset between 10 and 20",
    "offset >= 30 and partition <> 1",
    "value is null",
    "key is not null and length(value) > 20",
    "timestamp >= timestamp_millis(#90)",
    "timestamp < timestamp_millis(#30) and partition = 0",
    "partition = 1 or offset = 5",
    "offset > 1000000",
    "topic = '@plain' and offset = 7",
    "topic = 'another'",
)
FILTERS = (
    *(Query(f"where {text}", "plain", {}, condition=text) for text in _CONDITIONS),
    *(Query(f"pushed where {text}", "plain", {}, condition=text, ours={"pushFilters": "true"}) for text in _CONDITIONS),
    *(
        Query(f"pushed where {text} of {topic}", topic, {}, condition=text, ours={"pushFilters": "true"})
        for topic, text in (
            ("compacted", "offset >= 60"),
            ("compacted", "timestamp >= timestamp_millis(#118)"),
            ("trimmed", "offset < 15"),
            ("transactions", "timestamp >= timestamp_millis(#45)"),
            ("empty", "offset = 0"),
        )
    ),
)


def _offsets(name: str, topic: str, start: str | None, end: str | None, **more: str) -> Query:
    options = {"startingOffsets": start, "endingOffsets": end, **more}
    return Query(name, topic, {key: value for key, value in options.items() if value is not None})


OFFSETS = (
    _offsets("earliest to latest", "plain", "earliest", "latest"),
    _offsets("words in other cases", "plain", "EARLIEST", "Latest"),
    _offsets("words with spaces", "plain", " earliest ", " latest "),
    _offsets("an offset each", "plain", '{"@plain":{"0":5,"1":0,"2":59}}', '{"@plain":{"0":50,"1":60,"2":60}}'),
    _offsets("earliest and latest as numbers", "plain", '{"@plain":{"0":-2,"1":7,"2":-2}}',
             '{"@plain":{"0":-1,"1":9,"2":-1}}'),
    _offsets("nothing between equal offsets", "plain", '{"@plain":{"0":5,"1":6,"2":7}}',
             '{"@plain":{"0":5,"1":6,"2":7}}'),
    _offsets("nothing behind the ends", "plain", '{"@plain":{"0":60,"1":60,"2":60}}', "latest"),
    _offsets("from an offset on", "plain", '{"@plain":{"0":55,"1":56,"2":57}}', None),
    _offsets("up to an offset", "plain", None, '{"@plain":{"0":1,"1":2,"2":3}}'),
    _offsets("up to the first record", "plain", None, '{"@plain":{"0":0,"1":0,"2":0}}'),
    _offsets("inside a gap of compaction", "compacted", '{"@compacted":{"0":3}}', '{"@compacted":{"0":90}}'),
    _offsets("in an empty topic", "empty", '{"@empty":{"0":0,"1":0}}', '{"@empty":{"0":0,"1":0}}'),
    _offsets("behind deleted records", "trimmed", '{"@trimmed":{"0":12,"1":2}}', '{"@trimmed":{"0":13,"1":3}}'),
    _offsets("at the end of an emptied topic", "emptied", '{"@emptied":{"0":20}}', None),
    _offsets("inside an aborted transaction", "transactions", '{"@transactions":{"0":9,"1":2}}', None,
             **{"kafka.isolation.level": "read_committed"}),
    _offsets("up to inside an aborted transaction", "transactions", None, '{"@transactions":{"0":10,"1":9}}',
             **{"kafka.isolation.level": "read_committed"}),
    _offsets("at a marker", "transactions", '{"@transactions":{"0":5,"1":4}}', '{"@transactions":{"0":6,"1":5}}'),
    _offsets("assigned, offsets of what is assigned", "plain", '{"@plain":{"1":10}}', '{"@plain":{"1":-1}}',
             assign='{"@plain":[1]}'),
    _offsets("two topics, offsets of both", "plain", '{"@plain":{"0":50,"1":50,"2":50},"@half":{"0":-2,"1":-2}}', None,
             subscribe="@plain,@half"),
)  # fmt: skip

CHOICES = tuple(
    Query(name, "plain", options)
    for name, options in (
        ("two topics", {"subscribe": "@plain,@half"}),
        ("a topic named twice", {"subscribe": "@half,@half"}),
        ("topics with spaces", {"subscribe": " @half , @plain "}),
        ("topics with an empty name", {"subscribe": "@half,,@plain,"}),
        ("a pattern for one", {"subscribePattern": "@half"}),
        ("a pattern for several", {"subscribePattern": "@codec-(gzip|lz4|zst.)"}),
        ("a pattern for none", {"subscribePattern": "@[0-9]+x"}),
        ("a pattern that matches a part of a name", {"subscribePattern": "alf"}),
        ("one partition", {"assign": '{"@plain":[2]}'}),
        ("partitions of two topics", {"assign": '{"@plain":[0,1],"@half":[0]}'}),
        ("a partition named twice", {"assign": '{"@plain":[0,0]}'}),
        ("an empty partition", {"assign": '{"@half":[1]}'}),
        ("names in other cases", {"SUBSCRIBE": "@half", "STARTINGOFFSETS": "earliest", "IncludeHeaders": "TRUE"}),
    )
)

TIMES = tuple(
    Query(name, topic, options)
    for name, topic, options in (
        ("a start before all", "plain", {"startingTimestamp": "0"}),
        ("a start at a record", "plain", {"startingTimestamp": "#90"}),
        ("a start between records", "half",
         {"startingTimestamp": "#7", "startingOffsetsByTimestampStrategy": "latest"}),
        ("a start after all, latest", "plain",
         {"startingTimestamp": "#900", "startingOffsetsByTimestampStrategy": "latest"}),
        ("a start for each partition", "plain",
         {"startingOffsetsByTimestamp": '{"@plain":{"0":#9,"1":#100,"2":#170}}'}),
        ("a start for each partition, one after all", "plain",
         {"startingOffsetsByTimestamp": '{"@plain":{"0":#9,"1":#900,"2":#170}}',
          "startingOffsetsByTimestampStrategy": "LATEST"}),
        ("an end before all", "plain", {"endingTimestamp": "0"}),
        ("an end at a record", "plain", {"endingTimestamp": "#90"}),
        ("an end after all", "plain", {"endingTimestamp": "#900"}),
        ("an end for each partition", "plain", {"endingOffsetsByTimestamp": '{"@plain":{"0":#9,"1":#100,"2":#900}}'}),
        ("a start and an end", "plain", {"startingTimestamp": "#30", "endingTimestamp": "#60"}),
        ("a start by time, an end by offset", "plain",
         {"startingTimestamp": "#30", "endingOffsets": '{"@plain":{"0":20,"1":20,"2":20}}'}),
        ("a time precedes times and offsets", "plain",
         {"startingTimestamp": "#60", "startingOffsetsByTimestamp": '{"@plain":{"0":#9,"1":#9,"2":#9}}',
          "startingOffsets": '{"@plain":{"0":1,"1":1,"2":1}}'}),
        ("times precede offsets", "plain",
         {"startingOffsetsByTimestamp": '{"@plain":{"0":#9,"1":#9,"2":#9}}',
          "startingOffsets": '{"@plain":{"0":50,"1":50,"2":50}}'}),
        ("an ending time precedes the others", "plain",
         {"endingTimestamp": "#60", "endingOffsetsByTimestamp": '{"@plain":{"0":#9,"1":#9,"2":#9}}',
          "endingOffsets": "latest"}),
        ("times in a compacted topic", "compacted", {"startingTimestamp": "#40", "endingTimestamp": "#117"}),
        ("times in a trimmed topic", "trimmed", {"startingTimestamp": "#3"}),
        ("times inside transactions", "transactions", {"startingTimestamp": "#21", "endingTimestamp": "#46"}),
        ("times inside transactions, committed", "transactions",
         {"startingTimestamp": "#21", "endingTimestamp": "#46", "kafka.isolation.level": "read_committed"}),
        ("an end behind an open transaction", "open",
         {"endingTimestamp": "#305", "kafka.isolation.level": "read_committed"}),
        ("a start in an empty topic, latest", "empty",
         {"startingTimestamp": "#1", "startingOffsetsByTimestampStrategy": "latest"}),
        ("an end in an empty topic", "empty", {"endingTimestamp": "#1"}),
        ("times without a check of the strategy", "plain", {"startingOffsetsByTimestampStrategy": "latest"}),
    )
)  # fmt: skip

_EMPTY_TASKS = "the connector plans a task for an empty partition"
_IGNORED_LIMIT = "the connector ignores maxRecordsPerPartition in a batch query, unless minPartitions is given"


def _tasks(topic: str, limits: Mapping[str, str], differs: str | None = None) -> Query:
    limited = " and ".join(f"{name} {value}" for name, value in limits.items()) or "no limit"
    return Query(f"{limited} for {topic}", topic, limits, counts_tasks=True, differs=differs)


TASKS = tuple(
    _tasks(*arguments)
    for arguments in (
        ("plain", {}),
        ("half", {}, _EMPTY_TASKS),
        ("plain", {"minPartitions": "1"}),
        ("plain", {"minPartitions": "3"}),
        ("plain", {"minPartitions": "4"}),
        ("plain", {"minPartitions": "7"}),
        ("plain", {"minPartitions": "200"}),
        ("half", {"minPartitions": "3"}),
        ("wide", {"minPartitions": "5"}),
        ("wide", {"minPartitions": "17"}),
        ("trimmed", {"minPartitions": "5"}),
        ("compacted", {"minPartitions": "9"}),
        ("plain", {"maxRecordsPerPartition": "1000"}),
        ("plain", {"maxRecordsPerPartition": "60"}, _IGNORED_LIMIT),
        ("plain", {"maxRecordsPerPartition": "59"}, _IGNORED_LIMIT),
        ("plain", {"maxRecordsPerPartition": "7"}, _IGNORED_LIMIT),
        ("trimmed", {"maxRecordsPerPartition": "11"}, _IGNORED_LIMIT),
        ("plain", {"maxRecordsPerPartition": "40", "minPartitions": "4"}),
        ("plain", {"maxRecordsPerPartition": "40", "minPartitions": "20"}),
        ("trimmed", {"maxRecordsPerPartition": "20", "minPartitions": "9"}),
    )
)  # fmt: skip

CLIENT_SETTINGS = tuple(
    Query(f"{name} = {value}", topic, {name: value})
    for topic, name, value in (
        ("long", "kafka.max.partition.fetch.bytes", "1"),
        ("long", "kafka.max.partition.fetch.bytes", "100000"),
        ("plain", "kafka.max.partition.fetch.bytes", "1000"),
        ("plain", "kafka.max.poll.records", "3"),
        ("plain", "kafka.check.crcs", "false"),
        ("plain", "kafka.client.id", "somebody"),
        ("plain", "kafka.fetch.min.bytes", "100000"),
        ("plain", "kafka.receive.buffer.bytes", "65536"),
        ("plain", "kafka.isolation.level", "read_uncommitted"),
        ("plain", "kafka.security.protocol", "PLAINTEXT"),
        ("plain", "kafka.group.id", "group-of-the-user"),
        ("plain", "groupIdPrefix", "prefix-of-the-user"),
        ("plain", "kafka.request.timeout.ms", "20000"),
        ("plain", "fetchOffset.numRetries", "5"),
        ("plain", "fetchOffset.retryIntervalMs", "0"),
        ("plain", "kafkaConsumer.pollTimeoutMs", "20000"),
        ("plain", "maxOffsetsPerTrigger", "5"),
        ("plain", "minOffsetsPerTrigger", "500"),
        ("plain", "maxTriggerDelay", "1h"),
    )
)

LOSSES = tuple(
    Query(name, topic, {"failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "2000", **options})
    for name, topic, options in (
        ("what is left of deleted records", "trimmed", {"startingOffsets": '{"@trimmed":{"0":0,"1":0}}'}),
        ("nothing is left", "emptied", {"startingOffsets": '{"@emptied":{"0":5}}'}),
        ("a range that was deleted", "trimmed",
         {"startingOffsets": '{"@trimmed":{"0":0,"1":0}}', "endingOffsets": '{"@trimmed":{"0":5,"1":3}}'}),
        ("no loss at all", "plain", {}),
    )
)  # fmt: skip

ROW_QUERIES = (
    *WHOLE_TOPICS, *COLUMNS, *FILTERS, *OFFSETS, *CHOICES, *TIMES, *TASKS, *CLIENT_SETTINGS, *LOSSES
)  # fmt: skip
