"""The options of the log source, without a Spark session."""

from __future__ import annotations

import pytest

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.log_source.log_options import LogPosition, LogSourceOptions
from barnabas_spark.options.option_values import OptionError

pytestmark = pytest.mark.spark

REQUIRED = {"path": "/data", "topic": "orders"}


def test_defaults_are_those_of_sparks_kafka_source() -> None:
    options = LogSourceOptions.parse(REQUIRED)
    assert (options.paths, options.choice.names) == (("/data",), ("orders",))
    assert (options.starting, options.ending) == (LogPosition("earliest"), LogPosition("latest"))
    assert not options.read_committed
    assert not options.to_log_end
    assert options.fail_on_data_loss
    assert options.check_crcs
    assert not options.push_filters


def test_values() -> None:
    options = LogSourceOptions.parse(
        {
            "PATH": "file:///a/, /b",
            "subscribe": "x, y",
            "startingOffsets": '{"x": {"0": 5, "1": -2}}',
            "endingTimestamp": "1700000000000",
            "endingOffsets": '{"x": {"0": 9}}',
            "kafka.isolation.level": "read_committed",
            "endOfLog": "LogEnd",
            "splitBytes": "1000",
        }
    )
    assert (options.paths, options.choice.names) == (("/a", "/b"), ("x", "y"))
    assert options.starting.offsets == {TopicPartition("x", 0): 5, TopicPartition("x", 1): -2}
    # A timestamp wins over offsets.
    assert options.ending == LogPosition("latest", timestamp_ms=1_700_000_000_000)
    assert (options.read_committed, options.to_log_end, options.split_bytes) == (True, True, 1000)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topic": "orders"}, "option 'path' is missing: set it"),
        ({"path": "/data"}, r"exactly one of the options 'topic' .* must be given; none is"),
        (REQUIRED | {"subscribe": "orders"}, "must be given; topic and subscribe is"),
        ({"path": "/data", "topic": " , "}, "option 'topic' is ' , '; it must be one or more topics"),
        ({"path": "/data", "assign": '{"a": []}'}, "option 'assign' is .*: topic 'a' has no list of partitions"),
        ({"path": "/data", "subscribePattern": "("}, "option 'subscribePattern' is .* a regular expression"),
        (REQUIRED | {"path": "s3://bucket/data"}, "option 'path' is 's3://bucket/data'; it must be directories"),
        (REQUIRED | {"startingOffsets": "latest"}, "option 'startingOffsets' is 'latest'; it must be earliest"),
        (REQUIRED | {"endingOffsets": '{"a": {"0": -2}}'}, "it must be latest or offsets without -2"),
        (REQUIRED | {"startingOffsetsByTimestamp": '{"a": {"0": -1}}'}, "JSON with numbers from 0 on"),
        (REQUIRED | {"isolation.level": "committed"}, "it must be read_committed or read_uncommitted"),
        (REQUIRED | {"splitBytes": "0"}, "a whole number from 1 on"),
        (REQUIRED | {"startingOffset": "earliest"}, "did you mean 'startingOffsets'"),
    ],
)
def test_wrong_values_are_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        LogSourceOptions.parse(given)
