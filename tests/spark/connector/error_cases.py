"""The batch queries that Spark's Kafka connector or our source rejects, with what their messages say."""

from __future__ import annotations

from collections.abc import Mapping

from tests.spark.connector.batch_cases import Messages, Query

_NONE = "-"
"""Leaves out an option that every query has."""


def _wrong(name: str, options: Mapping[str, str], theirs: str | None, ours: str, topic: str = "plain") -> Query:
    """`theirs`, `ours`: expressions for the messages. None: the connector answers with rows instead (docs/spark.md)."""
    quickly = {"kafkaConsumer.pollTimeoutMs": "2000", "fetchOffset.retryIntervalMs": "10"}
    return Query(name, topic, {**quickly, **options}, fails=Messages(theirs, ours))


ERROR_QUERIES = (
    # -- what to read
    _wrong(
        "no choice of topics",
        {},
        "One of the following options must be",
        "exactly one of the options .* none is",
        topic="",
    ),
    _wrong(
        "two choices",
        {"subscribe": "@plain", "assign": '{"@plain":[0]}'},
        "Only one of the following options",
        "given are subscribe and assign",
    ),
    _wrong(
        "an empty subscription",
        {"subscribe": ""},
        "No topics to subscribe to .* 'subscribe' is ''",
        "option 'subscribe' is ''; it must be one or more topics",
    ),
    _wrong(
        "a subscription of commas",
        {"subscribe": " , "},
        "No topics to subscribe to .* 'subscribe' is ' , '",
        "option 'subscribe' is ' , '; it must be one or more topics",
    ),
    _wrong(
        "an empty pattern",
        {"subscribePattern": ""},
        "Pattern to subscribe is empty",
        "option 'subscribePattern' is ''; it must be a regular expression",
    ),
    _wrong(
        "a wrong pattern",
        {"subscribePattern": "a("},
        "Unclosed group",
        "'a\\('; it must be a regular expression: missing \\)",
    ),
    _wrong(
        "an assignment that is no JSON",
        {"assign": "@plain"},
        "No topicpartitions to assign",
        "option 'assign' is .*it is no JSON",
    ),
    _wrong(
        "an assignment of a word",
        {"assign": '{"@plain":"0"}'},
        "Expected e.g. .*topicA",
        "option 'assign' is .*has no list of partitions",
    ),
    _wrong("an empty assignment", {"assign": "{}"}, None, "option 'assign' is '{}'.*no object of topics"),
    _wrong(
        "no brokers",
        {"kafka.bootstrap.servers": _NONE},
        "Option 'kafka.bootstrap.servers' must be specified",
        "option 'kafka.bootstrap.servers' is missing",
    ),
    _wrong(
        "brokers without a port",
        {"kafka.bootstrap.servers": "127.0.0.1"},
        "Invalid url in bootstrap.servers: 127.0.0.1",
        "'127.0.0.1'; it must be host:port",
    ),
    _wrong(
        "a topic that is not there",
        {"subscribe": "@nowhere"},
        "UnknownTopicOrPartition",
        "UNKNOWN_TOPIC_OR_PARTITION: .*nowhere",
    ),
    _wrong(
        "a topic that is not there beside another",
        {"subscribe": "@plain,@nowhere"},
        "UnknownTopicOrPartition",
        "UNKNOWN_TOPIC_OR_PARTITION: .*nowhere",
    ),
    _wrong(
        "a partition that is not there",
        {"assign": '{"@plain":[7]}'},
        None,
        "option 'assign' names .*plain-7, but topic .* has 3 partitions",
    ),
    # -- where to start and end
    _wrong(
        "a batch that starts at the latest",
        {"startingOffsets": "latest"},
        "starting offset can't be latest",
        "option 'startingOffsets' is 'latest'; it must be earliest",
    ),
    _wrong(
        "a batch with a latest start",
        {"startingOffsets": '{"@plain":{"0":-1,"1":0,"2":0}}'},
        "startingOffsets for .*plain-0 can't be latest",
        "option 'startingOffsets' is .*a batch query ends at the latest",
    ),
    _wrong(
        "a batch that ends at the earliest",
        {"endingOffsets": "earliest"},
        "ending offset can't be earliest",
        "option 'endingOffsets' is 'earliest'; it must be latest",
    ),
    _wrong(
        "a batch with an earliest end",
        {"endingOffsets": '{"@plain":{"0":-2,"1":0,"2":0}}'},
        "ending offset for .*plain-0 can't be earliest",
        "option 'endingOffsets' is .*nothing lies before the earliest",
    ),
    _wrong(
        "a start that is no JSON",
        {"startingOffsets": "first"},
        "Expected e.g. .* got first",
        "option 'startingOffsets' is 'first'.* it is no JSON",
    ),
    _wrong(
        "an end that is no JSON",
        {"endingOffsets": "{"},
        "Expected e.g. .* got {",
        "option 'endingOffsets' is '{'.* it is no JSON",
    ),
    _wrong(
        "a start without a partition",
        {"startingOffsets": '{"@plain":{"0":1}}'},
        "start offsets don't match what are assigned",
        "'startingOffsets' must give .*plain-1 is missing",
    ),
    _wrong(
        "an end without a partition",
        {"endingOffsets": '{"@plain":{"0":1,"2":3}}'},
        "offsets don't match what are assigned",
        "'endingOffsets' must give .*plain-1 is missing",
    ),
    _wrong(
        "a start of another topic",
        {"startingOffsets": '{"@half":{"0":1,"1":1}}'},
        "start offsets don't match what are assigned",
        "'startingOffsets' must give .*plain-0 is missing",
    ),
    _wrong(
        "a start of a partition that is not there",
        {"startingOffsets": '{"@plain":{"0":1,"1":1,"2":1,"3":1}}'},
        "start offsets don't match what are assigned",
        "'startingOffsets' must give .*plain-3 is not read",
    ),
    _wrong(
        "a start behind the end",
        {"startingOffsets": '{"@plain":{"0":9,"1":9,"2":9}}', "endingOffsets": '{"@plain":{"0":9,"1":8,"2":9}}'},
        "start offset 9 is greater than the end offset 8 for .*plain partition 1",
        "gives 9 for .*plain-1, which is beyond the 8",
    ),
    _wrong(
        "a start behind the log's end",
        {"startingOffsets": '{"@plain":{"0":0,"1":5000,"2":0}}'},
        "start offset 5000 is greater than the resolved end offset 100",
        "plain-1 would be read from offset 5000 to 100",
    ),
    _wrong(
        "an end behind the log's end",
        {"endingOffsets": '{"@plain":{"0":1,"1":5000,"2":0}}'},
        "Some data may have been lost.*\\[100, 5000\\).*plain-1",
        "gives 5000 for .*plain-1, which ends at offset 100.*failOnDataLoss",
    ),
    _wrong(
        "start and end of different partitions",
        {"startingOffsets": '{"@plain":{"0":1,"1":1,"2":1}}', "endingOffsets": '{"@plain":{"0":1,"1":1}}'},
        "should have the same topic-partitions",
        "'endingOffsets' lacks .*plain-2",
    ),
    _wrong(
        "deleted records",
        {"startingOffsets": '{"@trimmed":{"0":3,"1":0}}'},
        "Some data may have been lost.*\\[3, 30\\).*trimmed-0",
        "trimmed-0: offset 3 of 3 to 30 is out of range, 12 to 30.*failOnDataLoss",
        topic="trimmed",
    ),
    _wrong(
        "an emptied topic",
        {"startingOffsets": '{"@emptied":{"0":3}}'},
        "Some data may have been lost.*\\[3, 20\\).*emptied-0",
        "emptied-0: offset 3 of 3 to 20 is out of range, 20 to 20.*failOnDataLoss",
        topic="emptied",
    ),
    _wrong(
        "a time after all",
        {"startingTimestamp": "#900"},
        "No offset matched from request",
        "'startingTimestamp': .*plain-0, which ends at offset 100, has no record",
    ),
    _wrong(
        "a time after all of one partition",
        {"startingOffsetsByTimestamp": '{"@plain":{"0":#9,"1":#900,"2":#170}}'},
        "No offset matched .*plain-1",
        "'startingOffsetsByTimestamp': .*plain-1, .*has no record",
    ),
    _wrong(
        "a time in an empty topic",
        {"startingTimestamp": "0"},
        "No offset matched .*empty-",
        "'startingTimestamp': .*empty-0, .*has no record",
        topic="empty",
    ),
    _wrong(
        "a time that is a word",
        {"startingTimestamp": "yesterday"},
        "single long value, got yesterday",
        "must be a whole number from",
    ),
    _wrong(
        "a time before 1970",
        {"startingTimestamp": "-5"},
        "No offset matched .*timestamp -5",
        "must be a whole number from",
    ),
    _wrong(
        "an ending time that is a word",
        {"endingTimestamp": "tomorrow"},
        "single long value, got tomorrow",
        "must be a whole number from",
    ),
    _wrong(
        "times that are no JSON",
        {"startingOffsetsByTimestamp": "#9"},
        "Expected e.g. .*123456789",
        "option 'startingOffsetsByTimestamp' is .*no object of topics",
    ),
    _wrong(
        "times without a partition",
        {"startingOffsetsByTimestamp": '{"@plain":{"0":#9}}'},
        "timestamp based start offsets don't match",
        "'startingOffsetsByTimestamp' must give .*plain-1 is missing",
    ),
    _wrong(
        "ending times without a partition",
        {"endingOffsetsByTimestamp": '{"@plain":{"0":#9}}'},
        "timestamp based end offsets don't match",
        "'endingOffsetsByTimestamp' must give .*plain-1 is missing",
    ),
    _wrong(
        "an ending time before the starting time",
        {"startingTimestamp": "#90", "endingTimestamp": "#30"},
        "start offset 30 is greater than the resolved end offset 10",
        "plain-0 would be read from offset 30 to 10",
    ),
    _wrong(
        "an unknown strategy",
        {"startingOffsetsByTimestampStrategy": "first"},
        "No value found for 'FIRST'",
        "'first'; it must be error or latest",
    ),
    # -- numbers and words
    _wrong(
        "no tasks",
        {"minPartitions": "0"},
        "minPartitions must be positive",
        "'minPartitions' is '0'; it must be a whole number from",
    ),
    _wrong(
        "fewer than no tasks",
        {"minPartitions": "-3"},
        "minPartitions must be positive",
        "'minPartitions' is '-3'; it must be a whole number from",
    ),
    _wrong(
        "tasks in words",
        {"minPartitions": "three"},
        'For input string: "three"',
        "'minPartitions' is 'three'; it must be a whole number from",
    ),
    _wrong(
        "tasks of no records",
        {"maxRecordsPerPartition": "0"},
        "maxrecordsperpartition must be positive",
        "'maxRecordsPerPartition' is '0'; it must be a whole number from",
    ),
    _wrong(
        "headers by a number",
        {"includeHeaders": "1"},
        'For input string: "1"',
        "'includeHeaders' is '1'; it must be true or false",
    ),
    _wrong(
        "loss by a word",
        {"failOnDataLoss": "maybe"},
        'For input string: "maybe"',
        "'failOnDataLoss' is 'maybe'; it must be true or false",
    ),
    _wrong(
        "retries in words",
        {"fetchOffset.numRetries": "often"},
        'For input string: "often"',
        "'fetchOffset.numRetries' is 'often'; it must be a whole number from",
    ),
    _wrong(
        "no retries",
        {"fetchOffset.numRetries": "0"},
        "assertion failed",
        "'fetchOffset.numRetries' is '0'; it must be a whole number from",
    ),
    _wrong(
        "poll timeout in words",
        {"kafkaConsumer.pollTimeoutMs": "soon"},
        'For input string: "soon"',
        "'kafkaConsumer.pollTimeoutMs' is 'soon'; it must be a whole number from",
    ),
    _wrong(
        "an unknown isolation",
        {"kafka.isolation.level": "serializable"},
        "Invalid value serializable for configuration isolation.level",
        "'serializable'; it must be read_committed or read_uncommitted",
    ),
    _wrong(
        "an unknown protocol",
        {"kafka.security.protocol": "morse"},
        "Invalid value morse for configuration security.protocol",
        "kafka.security.protocol must be PLAINTEXT or SSL .*not 'MORSE'",
    ),
    _wrong(
        "a size in words",
        {"kafka.max.partition.fetch.bytes": "large"},
        "Invalid value large for configuration max.partition.fetch.bytes",
        "'large'; it must be a whole number from",
    ),
    _wrong(
        "a negative size",
        {"kafka.max.partition.fetch.bytes": "-1"},
        "Invalid value -1 for configuration max.partition.fetch.bytes",
        "'-1'; it must be a whole number from",
    ),
    # -- settings that the source decides
    _wrong(
        "a reset of offsets",
        {"kafka.auto.offset.reset": "earliest"},
        "'auto.offset.reset' is not supported",
        "'kafka.auto.offset.reset' .*cannot be set",
    ),
    _wrong(
        "a key deserializer",
        {"kafka.key.deserializer": "x"},
        "'key.deserializer' is not supported",
        "'kafka.key.deserializer' .*cannot be set",
    ),
    _wrong(
        "a value deserializer",
        {"kafka.value.deserializer": "x"},
        "'value.deserializer' is not supported",
        "'kafka.value.deserializer' .*cannot be set",
    ),
    _wrong(
        "automatic commits",
        {"kafka.enable.auto.commit": "true"},
        "'enable.auto.commit' is not supported",
        "'kafka.enable.auto.commit' .*cannot be set",
    ),
    _wrong(
        "interceptors",
        {"kafka.interceptor.classes": "x"},
        "'interceptor.classes' is not supported",
        "'kafka.interceptor.classes' .*cannot be set",
    ),
    # -- names
    _wrong(
        "a misspelt option",
        {"startingOffset": "earliest"},
        None,
        "unknown option 'startingoffset'; did you mean 'startingOffsets'",
    ),
    _wrong("an option of nothing", {"colour": "red"}, None, "unknown option 'colour'; known are assign"),
    _wrong(
        "a misspelt setting",
        {"kafka.max.pol.records": "3"},
        None,
        "unknown option 'kafka.max.pol.records'; did you mean 'kafka.max.poll.records'",
    ),
)
