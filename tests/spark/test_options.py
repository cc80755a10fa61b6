"""Options: those of Spark's Kafka source and sink, and a clear answer to each that cannot be."""

from __future__ import annotations

import pickle

import pytest

from barnabas.clients.settings.client_security import channel_builder
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas_spark.options.option_table import COMPRESSION_TYPE, KAFKA_OPTIONS_OF_SOURCE, SOURCE_OPTIONS
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.options.position_options import TimestampPosition
from barnabas_spark.options.sink_options import SinkOptions
from barnabas_spark.options.source_options import SourceOptions
from barnabas_spark.source import check_options, warn_of_stream_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = SERVERS | {"subscribe": "t"}
PASSWORD = "a-secret-password"
SASL = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": PASSWORD,
}
MSK_MODULE = "shadedmskiam.software.amazon.msk.auth.iam.IAMLoginModule"
MSK_HANDLER = "shadedmskiam.software.amazon.msk.auth.iam.IAMClientCallbackHandler"
MSK = SASL | {
    "kafka.sasl.mechanism": "AWS_MSK_IAM",
    "kafka.sasl.jaas.config": f"{MSK_MODULE} required;",
    "kafka.sasl.client.callback.handler.class": MSK_HANDLER,
}


def test_names_are_found_in_any_case_and_defaults_are_sparks() -> None:
    options = SourceOptions.parse({"KAFKA.bootstrap.SERVERS": "a:1, b:2", "SUBSCRIBE": "x, y,x"}, streaming=False)
    assert options.connection.bootstrap_servers == ("a:1", "b:2")
    assert options.choice.topics == ("x", "y")
    assert (options.starting, options.ending, options.fail_on_data_loss) == ("earliest", "latest", True)
    assert SourceOptions.parse(SERVERS | {"subscribe": "x"}, streaming=True).starting == "latest"


def test_offsets_and_partitions_come_as_json() -> None:
    given = SERVERS | {
        "assign": '{"t": [1, 0], "u": [0]}',
        "startingOffsets": '{"t": {"0": 23, "1": -2}, "u": {"0": 7}}',
        "endingOffsets": '{"t": {"0": -1, "1": 9}, "u": {"0": 7}}',
    }
    options = SourceOptions.parse(given, streaming=False)
    assert options.choice.assigned == (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))
    assert options.starting == {TopicPartition("t", 0): 23, TopicPartition("t", 1): -2, TopicPartition("u", 0): 7}
    assert isinstance(options.ending, dict)
    assert options.ending[TopicPartition("t", 0)] == -1


@pytest.mark.parametrize(
    ("given", "streaming", "said"),
    [
        ({"subscribe": "t"}, False, "'kafka.bootstrap.servers' is missing.*localhost:9092"),
        (SERVERS, False, "exactly one of.*'subscribe'.*none is"),
        (TOPIC | {"assign": '{"t":[0]}'}, False, "exactly one of.*given are subscribe and assign"),
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
        (SERVERS | {"subscribePattern": "t("}, True, "'subscribePattern' is 't\\('.*a regular expression: missing"),
        (SERVERS | {"subscribePattern": " "}, True, "'subscribePattern' is ' '.*a regular expression"),
        (TOPIC | {"startingTimestamp": "-1"}, True, "'startingTimestamp' is '-1'.*from 0 on"),
        (TOPIC | {"startingTimestamp": "today"}, True, "'startingTimestamp' is 'today'.*whole number"),
        (TOPIC | {"startingOffsetsByTimestamp": "5"}, True, "'startingOffsetsByTimestamp' is '5'.*JSON such as"),
        (TOPIC | {"startingOffsetsByTimestampStrategy": "first"}, True, "is 'first'.*error or latest"),
        (TOPIC | {"endingTimestamp": "9"}, True, "'endingTimestamp'.*not valid in a streaming query"),
        (TOPIC | {"endingOffsetsByTimestamp": "{}"}, True, "'endingOffsetsByTimestamp'.*not valid in a streaming"),
        (TOPIC | {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, True, "'minOffsetsPerTrigger' is '9'.*8"),
        (TOPIC | {"maxTriggerDelay": "soon"}, True, "'maxTriggerDelay' is 'soon'.*15m"),
        (TOPIC | {"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"0":8}}'}, False, "9 for t-0.*the 8 of"),
        (TOPIC | {"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"u":{"0":8}}'}, False, "lacks t-0"),
        (TOPIC | {"kafka.transactional.id": "x"}, False, "'kafka.transactional.id'.*cannot be set"),
        (TOPIC | {"kafka.auto.offset.reset": "latest"}, True, "cannot be set: use startingOffsets"),
        (TOPIC | {"kafka.fetch.max.wait": "5"}, True, "did you mean 'kafka.fetch.max.wait.ms'"),
        (TOPIC | {"kafka.isolation.level": "committed"}, True, "must be read_committed or read_uncommitted"),
        (TOPIC | {"kafka.security.protocol": "TLS"}, True, "kafka.security.protocol must be PLAINTEXT or SSL.*'TLS'"),
        (TOPIC | {"kafka.security.protocol": "SASL_SSL"}, True, "needs kafka.sasl.mechanism: PLAIN, SCRAM-SHA-256"),
        (TOPIC | {"kafka.sasl.mechanism": "PLAIN"}, True, "kafka.sasl.mechanism is given, and kafka.security.protocol"),
        (TOPIC | SASL | {"kafka.sasl.mechanism": "GSSAPI"}, True, "'GSSAPI', which is not offered.*use PLAIN"),
        (TOPIC | SASL | {"kafka.ssl.truststore.location": "/ca"}, True, "kafka.ssl.truststore.location is given, and"),
        (TOPIC | SASL | {"kafka.sasl.token.auth": "yes"}, True, "'kafka.sasl.token.auth' is 'yes'.*true or false"),
        (TOPIC | {"kafka.sasl.kerberos.service.name": "k"}, True, "cannot be set: Kerberos .* is not offered"),
        (TOPIC | SASL | {"kafka.sasl.login.retry.backoff.ms": "x"}, True, "retry.backoff.ms' is 'x'.*a whole number"),
        (TOPIC | SASL | {"kafka.sasl.login.refresh.window.factor": "x"}, True, "window.factor' is 'x'.*a number"),
        (TOPIC | {"kafka.ssl.protocol": "TLSv1.3"}, True, "cannot be set: use kafka.ssl.enabled.protocols"),
        (TOPIC | {"kafka.topic": "u"}, True, "unknown option 'kafka.topic'; did you mean 'subscribe'"),
        (TOPIC | {"topics": "u"}, True, "unknown option 'topics'; did you mean 'subscribe'"),
        (TOPIC | {"bootstrap.servers": "a:1"}, True, "did you mean 'kafka.bootstrap.servers'"),
        (TOPIC | {"kafka.maxOffsetsPerTriger": "5"}, True, "did you mean 'maxOffsetsPerTrigger'"),
        (SERVERS | {"subscribe": '["a","b"]'}, True, r"such as a,b, without brackets.*'\"b\"\]' is no"),
        (SERVERS | {"subscribe": "a;b"}, True, "'a;b' is no name of a topic"),
        (SERVERS | {"assign": '{"a b": [0]}'}, True, "'a b' is no name of a topic"),
        (TOPIC | {"startingOffsets": '{"t": "earliest"}'}, True, r'-2 for earliest: \{"t": \{"0": -2, "1": -2\}\}'),
        (TOPIC | {"endingOffsets": '{"t": "Latest"}'}, False, "with -1 for Latest"),
        (TOPIC | {"startingOffsets": '{"t": {"0": "earliest"}}'}, True, "-2 stands for earliest"),
        (TOPIC | {"startingOffsets": '{"t": -2}'}, True, "topic 't' has no object of partitions"),
        (TOPIC | MSK, True, "'kafka.sasl.mechanism' is 'AWS_MSK_IAM', which is not offered: Amazon MSK offers SCRAM"),
        (TOPIC | {"kafka.sasl.client.callback.handler.class": MSK_HANDLER}, True, "AWS_MSK_IAM, which is not offered"),
        (TOPIC | SASL | {"kafka.sasl.jaas.config": f"{MSK_MODULE} required;"}, True, "for AWS_MSK_IAM, which is not"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(given: dict[str, str], streaming: bool, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        SourceOptions.parse(given, streaming=streaming)


def test_the_security_of_connections_is_the_same_for_source_and_sink_and_hides_its_secrets() -> None:
    pem = {
        "kafka.security.protocol": "sasl_ssl",
        "kafka.ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----",
        "kafka.ssl.enabled.protocols": "TLSv1.2, TLSv1.3",
    }
    source = SourceOptions.parse(TOPIC | SASL | pem, streaming=True)
    sink = SinkOptions.parse(SERVERS | SASL | pem)
    assert source.connection.security == sink.security
    assert hash(source.connection) == hash(pickle.loads(pickle.dumps(source)).connection)
    settings = sink.security.security_settings()
    assert (settings["security_protocol"], settings["sasl_username"]) == ("SASL_SSL", "alice")
    assert settings["ssl_enabled_protocols"] == ("TLSv1.2", "TLSv1.3")
    assert settings["sasl_password"].reveal() == PASSWORD
    for shown in (repr(source), repr(sink)):
        assert PASSWORD not in shown
        assert "BEGIN" not in shown


def test_tokens_come_from_an_identity_provider_by_kafka_s_options() -> None:
    module = "org.apache.kafka.common.security.oauthbearer"
    given = SERVERS | {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.login.callback.handler.class": f"{module}.OAuthBearerLoginCallbackHandler",
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://identity.example.com/token",
        "kafka.sasl.login.read.timeout.ms": "5000",
        "kafka.sasl.login.refresh.window.factor": "0.5",
        "kafka.sasl.jaas.config": f'{module}.OAuthBearerLoginModule required clientId="a" clientSecret="{PASSWORD}";',
    }
    options = SinkOptions.parse(given)
    settings = options.security.security_settings()
    assert settings["sasl_login_read_timeout_ms"] == 5000
    assert settings["sasl_login_refresh_window_factor"] == 0.5
    assert channel_builder(options.security, "c") is not None
    assert PASSWORD not in repr(options)
    with pytest.raises(OptionError, match=r"kafka.sasl.oauthbearer.token.endpoint.url must be https"):
        SinkOptions.parse(given | {"kafka.sasl.oauthbearer.token.endpoint.url": "identity.example.com"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"kafka.sasl.pasword": PASSWORD},
        {"sasl.password": PASSWORD},
        {"kafka.sasl.jaas.config": f'Module required username="a" password="{PASSWORD}";'},
        {"kafka.sasl.username": "", "kafka.sasl.jaas.config": f'Module required password="{PASSWORD}'},
    ],
)
def test_no_error_shows_a_secret(wrong: dict[str, str]) -> None:
    for parse in (lambda given: SourceOptions.parse(TOPIC | given, streaming=True), SinkOptions.parse):
        with pytest.raises(OptionError) as caught:
            parse(SERVERS | SASL | wrong)
        assert PASSWORD not in str(caught.value)


def test_a_time_for_all_precedes_times_and_those_precede_offsets() -> None:
    given = TOPIC | {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"t": {"0": 7}}'}
    by_partition = SourceOptions.parse(given, streaming=True).starting
    assert by_partition == TimestampPosition("startingOffsetsByTimestamp", {TopicPartition("t", 0): 7}, "error")
    for_all = SourceOptions.parse(given | {"startingTimestamp": "5"}, streaming=True).starting
    assert for_all == TimestampPosition("startingTimestamp", 5, "error")


@pytest.mark.parametrize(("text", "delay_ms"), [("15m", 900_000), ("2 s", 2_000), ("7", 7), ("1h", 3_600_000)])
def test_durations_are_sparks(text: str, delay_ms: int) -> None:
    limits = SourceOptions.parse(TOPIC | {"maxTriggerDelay": text}, streaming=True).limits
    assert limits.max_trigger_delay_ms == delay_ms


def test_names_of_classes_that_a_distribution_of_spark_has_moved() -> None:
    """Databricks' pages write Kafka's classes with `kafkashaded.` before them."""
    common = "kafkashaded.org.apache.kafka.common.security"
    secured = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
        "kafka.sasl.login.callback.handler.class": f"{common}.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
        "kafka.sasl.jaas.config": f"{common}.oauthbearer.OAuthBearerLoginModule required"
        ' clientId="me" clientSecret="mine";',
    }
    security = SourceOptions.parse(TOPIC | secured, streaming=True).connection.security
    handler = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
    assert security.sasl_login_callback_handler_class == handler
    plain = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{common}.plain.PlainLoginModule required username="me" password="mine";',
    }
    SourceOptions.parse(TOPIC | plain, streaming=True)
    with pytest.raises(OptionError, match=r"callback\.handler\.class must be"):
        SourceOptions.parse(
            TOPIC | secured | {"kafka.sasl.login.callback.handler.class": "org.example.Handler"}, streaming=True
        )


def test_every_default_of_the_table_is_a_value_that_the_option_takes() -> None:
    """A default that is given as text has the same effect as none."""
    declared = (*SOURCE_OPTIONS, *KAFKA_OPTIONS_OF_SOURCE)
    given = {option.name: option.default for option in declared if option.default is not None}
    assert SourceOptions.parse(TOPIC | given, streaming=False) == SourceOptions.parse(TOPIC, streaming=False)


def test_load_checks_what_it_can(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(OptionError, match="did you mean 'startingOffsets'"):
        check_options(TOPIC | {"startingOffset": "latest"})
    with pytest.raises(OptionError, match="did you mean 'topic'"):
        check_options(SERVERS | {"topics": "t"})
    with pytest.raises(OptionError, match="'failOnDataLoss' is '1'"):
        check_options(TOPIC | {"failOnDataLoss": "1"})
    with pytest.raises(OptionError, match=r"'kafka\.acks' is '1'"):
        check_options(SERVERS | {"topic": "t", "kafka.acks": "1"})
    with pytest.raises(OptionError, match="CREATE TEMPORARY VIEW"):
        check_options({})
    with pytest.raises(OptionError, match="CREATE TEMPORARY VIEW"):
        check_options(TOPIC | {"provider": "barnabas", "owner": "me", "option.subscribe": "t"})
    check_options(TOPIC | {"endingOffsets": "latest"})
    check_options(TOPIC | {"startingOffsets": "latest"})
    check_options(SERVERS)
    assert not caplog.messages


def test_one_warning_names_the_options_without_effect(caplog: pytest.LogCaptureFixture) -> None:
    check_options(TOPIC | {"kafka.max.poll.records": "9", "KAFKA.heartbeat.interval.ms": "3"})
    check_options(SERVERS | {"topic": "t", "kafka.retries": "9"})
    assert len(caplog.messages) == 2
    assert "kafka.heartbeat.interval.ms, kafka.max.poll.records" in caplog.messages[0]
    assert "kafka.retries" in caplog.messages[1]
    warn_of_stream_options(TOPIC | {"maxOffsetsPerTrigger": "9", "minPartitions": "3"})
    assert caplog.messages[2] == "ignored in a batch query: maxOffsetsPerTrigger"


def test_options_of_the_jvm_source_that_mean_nothing_here_are_taken() -> None:
    given = SERVERS | {
        "subscribe": "t",
        "kafka.max.poll.records": "9",
        "fetchOffset.numRetries": "3",
        "groupIdPrefix": "x",
    }
    assert SourceOptions.parse(given, streaming=True).choice.topics == ("t",)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "'kafka.bootstrap.servers' is missing"),
        (SERVERS | {"kafka.acks": "1"}, "'kafka.acks' is '1'.*all"),
        (SERVERS | {"topic": " "}, "'topic' is ' '"),
        (SERVERS | {"kafka.compression.type": "brotli"}, "'kafka.compression.type' is 'brotli'.*gzip or lz4"),
        (SERVERS | {"kafka.value.serializer": "x"}, "'kafka.value.serializer'.*cast the column"),
        (SERVERS | {"topics": "t"}, "did you mean 'topic'"),
        (SERVERS | {"kafka.topic": "t"}, "did you mean 'topic'"),
        (SERVERS | {"subscribe": "t"}, "did you mean 'topic'"),
        (SERVERS | {"topic": "a,b"}, "'topic' is 'a,b'.*the name of one topic"),
        (SERVERS | {"topic": ".."}, "'topic' is '..'.*the name of one topic"),
        (SERVERS | {"kafka.max.block.ms": "-1"}, "'kafka.max.block.ms' is '-1'.*from 0 on"),
        (SERVERS | {"kafka.delivery.timeout.ms": "20000"}, "'kafka.delivery.timeout.ms' is '20000'.*30000"),
    ],
)
def test_what_a_sink_cannot_take_is_said(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        SinkOptions.parse(given)


def test_a_sinks_options() -> None:
    options = SinkOptions.parse(SERVERS | {"Topic": "t", "kafka.compression.type": "zstd", "checkpointLocation": "/c"})
    assert (options.topic, options.codec, options.checkpoint_location) == ("t", Codec.ZSTD, "/c")
    assert (options.max_request_bytes, options.buffer_bytes, options.batch_bytes) == (1 << 20, 32 << 20, 256 << 10)
    assert (options.request_timeout_ms, options.delivery_timeout_ms, options.max_block_ms) == (30_000, 120_000, 60_000)


def test_no_batch_of_a_sink_is_larger_than_a_record_may_be() -> None:
    options = SinkOptions.parse(SERVERS | {"kafka.max.request.size": "9000", "kafka.batch.size": "65536"})
    assert (options.max_request_bytes, options.batch_bytes) == (9_000, 9_000)


def test_a_sinks_default_delivery_timeout_grows_with_its_request_timeout() -> None:
    options = SinkOptions.parse(SERVERS | {"kafka.request.timeout.ms": "200000", "kafka.max.block.ms": "0"})
    assert (options.request_timeout_ms, options.delivery_timeout_ms, options.max_block_ms) == (200_000, 200_000, 0)


def test_the_sink_has_every_codec() -> None:
    """They are written out in the table, which is read where no codec is loaded."""
    assert COMPRESSION_TYPE.choices == tuple(codec.name.lower() for codec in Codec)
