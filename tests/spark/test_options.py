"""Options: those of Spark's Kafka source and sink, and a clear answer to each that cannot be."""

from __future__ import annotations

import pytest

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas_spark.option_values import OptionError
from barnabas_spark.sink_options import SinkOptions
from barnabas_spark.source_options import SourceOptions

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = SERVERS | {"subscribe": "t"}


def test_names_are_found_in_any_case_and_defaults_are_sparks() -> None:
    options = SourceOptions.parse({"KAFKA.bootstrap.SERVERS": "a:1, b:2", "SUBSCRIBE": "x, y,x"}, streaming=False)
    assert options.bootstrap_servers == ("a:1", "b:2")
    assert options.topics == ("x", "y")
    assert (options.starting, options.ending, options.fail_on_data_loss) == ("earliest", "latest", True)
    assert SourceOptions.parse(SERVERS | {"subscribe": "x"}, streaming=True).starting == "latest"


def test_offsets_and_partitions_come_as_json() -> None:
    given = SERVERS | {
        "assign": '{"t": [1, 0], "u": [0]}',
        "startingOffsets": '{"t": {"0": 23, "1": -2}, "u": {"0": 7}}',
        "endingOffsets": '{"t": {"0": -1, "1": 9}, "u": {"0": 7}}',
    }
    options = SourceOptions.parse(given, streaming=False)
    assert options.assigned == (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))
    assert options.starting == {TopicPartition("t", 0): 23, TopicPartition("t", 1): -2, TopicPartition("u", 0): 7}
    assert isinstance(options.ending, dict)
    assert options.ending[TopicPartition("t", 0)] == -1


@pytest.mark.parametrize(
    ("given", "streaming", "said"),
    [
        ({"subscribe": "t"}, False, "'kafka.bootstrap.servers' is missing.*localhost:9092"),
        (SERVERS, False, "exactly one of.*'subscribe'.*none is"),
        (TOPIC | {"assign": '{"t":[0]}'}, False, "exactly one of.*both are"),
        (SERVERS | {"subscribe": " , "}, False, "'subscribe' is ' , '.*separated by commas"),
        (TOPIC | {"kafka.bootstrap.servers": "broker"}, False, "'kafka.bootstrap.servers' is 'broker'.*host:port"),
        (SERVERS | {"assign": "t:0"}, False, "'assign' is 't:0'.*JSON"),
        (SERVERS | {"assign": '{"t": ["0"]}'}, False, "'0' of topic 't' is no partition"),
        (TOPIC | {"startingOffsets": "newest"}, True, "'startingOffsets' is 'newest'.*earliest, latest or"),
        (TOPIC | {"startingOffsets": '{"t": {"0": -3}}'}, True, "-3 of topic 't'"),
        (TOPIC | {"startingOffsets": "latest"}, False, "'startingOffsets' is 'latest'.*earliest"),
        (TOPIC | {"startingOffsets": '{"t": {"0": -1}}'}, False, "a batch query ends at the latest"),
        (TOPIC | {"endingOffsets": "earliest"}, False, "'endingOffsets' is 'earliest'.*latest"),
        (TOPIC | {"endingOffsets": "latest"}, True, "'endingOffsets'.*not valid in a streaming query"),
        (TOPIC | {"failOnDataLoss": "no"}, False, "'failOnDataLoss' is 'no'.*true or false"),
        (TOPIC | {"maxOffsetsPerTrigger": "0"}, True, "'maxOffsetsPerTrigger' is '0'.*from 1 on"),
        (TOPIC | {"startingOffset": "latest"}, True, "unknown option.*did you mean 'startingOffsets'"),
        (SERVERS | {"subscribePattern": "t.*"}, True, "'subscribePattern'.*not supported yet; use subscribe"),
        (TOPIC | {"kafka.auto.offset.reset": "latest"}, True, "cannot be set: use startingOffsets"),
        (TOPIC | {"kafka.fetch.max.wait": "5"}, True, "did you mean 'kafka.fetch.max.wait.ms'"),
        (TOPIC | {"kafka.isolation.level": "read_committed"}, True, "read_uncommitted: transactions"),
        (TOPIC | {"kafka.security.protocol": "SSL"}, True, "'kafka.security.protocol' is 'SSL'.*PLAINTEXT"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(given: dict[str, str], streaming: bool, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        SourceOptions.parse(given, streaming=streaming)


def test_options_of_the_jvm_source_that_mean_nothing_here_are_taken() -> None:
    given = SERVERS | {
        "subscribe": "t",
        "kafka.max.poll.records": "9",
        "fetchOffset.numRetries": "3",
        "groupIdPrefix": "x",
    }
    assert SourceOptions.parse(given, streaming=True).topics == ("t",)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "'kafka.bootstrap.servers' is missing"),
        (SERVERS | {"kafka.acks": "1"}, "'kafka.acks' is '1'.*all"),
        (SERVERS | {"topic": " "}, "'topic' is ' '"),
        (SERVERS | {"kafka.compression.type": "brotli"}, "'kafka.compression.type' is 'brotli'.*gzip or lz4"),
        (SERVERS | {"kafka.value.serializer": "x"}, "'kafka.value.serializer'.*cast the column"),
        (SERVERS | {"topics": "t"}, "did you mean 'topic'"),
    ],
)
def test_what_a_sink_cannot_take_is_said(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        SinkOptions.parse(given)


def test_a_sinks_options() -> None:
    options = SinkOptions.parse(SERVERS | {"Topic": "t", "kafka.compression.type": "zstd", "checkpointLocation": "/c"})
    assert (options.topic, options.codec, options.checkpoint_location) == ("t", Codec.ZSTD, "/c")
