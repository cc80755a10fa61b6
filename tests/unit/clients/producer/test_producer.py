"""The producer as users call it, its thread on a scripted network."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from barnabas.clients.client_metrics import MetricName
from barnabas.clients.errors import ClientClosed, ClientTimeout, NotInMetadata
from barnabas.clients.metadata.cluster import Cluster
from barnabas.clients.producer import (
    MutableHeaders,
    OutgoingRecord,
    Producer,
    ProducerConfig,
    RecordMetadata,
    SerializationFailed,
)
from barnabas.clients.producer.partition_choice import partition_for_key
from barnabas.clients.producer.sending import sender_thread
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from barnabas.protocol.uuid import uuid_to_string
from barnabas.records.compression import Codec
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.support.scripted_selector import SentRequest
from tests.unit.clients.producer.producer_harness import ProducerSetting

WAIT_S = 30


@pytest.fixture
def setting() -> Iterator[ProducerSetting]:
    made = ProducerSetting()
    yield made
    for producer in made.producers:
        producer.close(timeout_ms=0)


def test_records_arrive_with_everything(setting: ProducerSetting) -> None:
    told: list[Any] = []
    producer = setting.producer(compression_type="lz4", client_id="mine")
    assert "kafka-producer-network-thread | mine" in {thread.name for thread in threading.enumerate()}
    future = producer.send(
        "t",
        b"value",
        b"key",
        [("h", b"1"), ("n", None)],
        partition=2,
        timestamp_ms=77,
        on_delivery=lambda *args: told.append(args),
    )
    metadata = future.result(WAIT_S)
    assert metadata == ("t", 2, 0, 77, 3, 5)
    assert told == [(metadata, None)]
    (batch,) = setting.stored[2]
    assert batch.codec is Codec.LZ4
    assert next(batch.records())[1:] == (77, b"key", b"value", (("h", b"1"), ("n", None)))


def test_keys_go_where_kafka_puts_them(setting: ProducerSetting) -> None:
    producer = setting.producer()
    for number in range(20):
        key = b"key-%d" % number
        assert producer.send("t", b"", key).result(WAIT_S).partition == partition_for_key(key, 3)
    assert producer.partition_count("t") == 3


def test_flush_and_close_send_what_lingers(setting: ProducerSetting) -> None:
    with setting.producer(linger_ms=60_000) as producer:
        first = [producer.send("t", b"x") for _ in range(10)]
        producer.flush()
        assert all(future.done() for future in first)
        second = producer.send("t", b"y")
    assert second.done()
    for use in (lambda: producer.send("t"), producer.flush, lambda: producer.partitions_for("t")):
        with pytest.raises(ClientClosed):
            use()


def test_ready_made_batches(setting: ProducerSetting) -> None:
    builder = RecordBatchBuilder(Codec.ZSTD)
    for _ in range(5):
        builder.append(1, None, b"v")
    producer = setting.producer()
    assert producer.send_batch("t", 1, builder.build()).result(WAIT_S).offset == 0
    assert producer.send_batch("t", 1, builder.build()).result(WAIT_S).offset == 5
    assert [batch.count for batch in setting.stored[1]] == [5, 5]


def test_the_wait_for_metadata_is_no_part_of_a_ready_made_batchs_time(setting: ProducerSetting) -> None:
    answer = setting.cluster.handlers[ApiKey.METADATA]

    def late(request: SentRequest) -> Any:
        setting.cluster.clock.advance(10_000)
        return answer(request)

    setting.cluster.handlers[ApiKey.METADATA] = late
    producer = setting.producer(request_timeout_ms=5_000, delivery_timeout_ms=5_000)
    builder = RecordBatchBuilder()
    builder.append(1, None, b"v")
    assert producer.send_batch("t", 1, builder.build()).result(WAIT_S).offset == 0


def test_errors_of_a_record_are_in_its_future_and_its_callback(setting: ProducerSetting) -> None:
    # Else the sender's polls let five minutes pass now and then, after which a topic is dropped as idle.
    setting.selector.passes_time = False
    told: list[Any] = []
    producer = setting.producer(max_request_size=1000, max_block_ms=0)
    producer._metadata.add_topic("t", 0)
    while producer._metadata.cluster.partition_count("t") is None:
        producer._sender.wakeup()
    future = producer.send("t", b"x" * 1000, on_delivery=lambda *args: told.append(args))
    error = future.exception(0)
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "which is the value of the max.request.size configuration." in error.message
    assert told == [(None, error)]
    missing = producer.send("missing", b"x").exception(0)
    assert isinstance(missing, ClientTimeout)
    assert str(missing) == "Topic missing not present in metadata after 0 ms."
    partition = producer.send("t", b"x", partition=3).exception(0)
    assert "Partition 3 of topic t with partition count 3 not present" in str(partition)


def test_a_topic_that_the_brokers_do_not_know_differs_from_one_that_nothing_is_known_of(
    setting: ProducerSetting,
) -> None:
    setting.cluster.topics["missing"] = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    producer = setting.producer(max_block_ms=2_000)
    with pytest.raises(NotInMetadata, match="Topic missing not present in metadata after 2000 ms"):
        producer.partitions_for("missing")
    with pytest.raises(ClientTimeout) as unknown:
        producer.partitions_for("missing", 0)
    assert type(unknown.value) is ClientTimeout


def test_a_topic_with_an_invalid_name(setting: ProducerSetting) -> None:
    setting.cluster.topics["bad/name"] = int(ErrorCode.INVALID_TOPIC_EXCEPTION)
    error = setting.producer().send("bad/name", b"x").exception(WAIT_S)
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_what_the_caller_changes_later_does_not_matter(setting: ProducerSetting) -> None:
    producer = setting.producer(linger_ms=60_000)
    value, headers = bytearray(b"before"), [("h", b"1")]
    future = producer.send("t", value, memoryview(b"k"), headers, partition=0)
    value[:] = b"after!"
    headers.clear()
    producer.flush()
    assert future.done()
    record = next(setting.stored[0][0].records())
    assert (record.key, record.value, record.headers) == (b"k", b"before", (("h", b"1"),))


def test_wrong_arguments_raise(setting: ProducerSetting) -> None:
    producer = setting.producer()
    with pytest.raises(TypeError, match="value must be bytes or None, not str"):
        producer.send("t", "text")
    with pytest.raises(TypeError, match="key must be bytes"):
        producer.send("t", b"", 5)
    with pytest.raises(ValueError, match="Invalid partition: -1"):
        producer.send("t", b"", partition=-1)
    with pytest.raises(ValueError, match="Invalid timestamp: -1"):
        producer.send("t", b"", timestamp_ms=-1)
    with pytest.raises(ValueError, match="Invalid timestamp"):
        producer.send("t", b"", timestamp_ms=1 << 63)
    with pytest.raises(TypeError, match="not both"):
        Producer("a:1", ProducerConfig(), linger_ms=1)


def test_flush_and_close_in_a_callback_do_not_wait_for_themselves(setting: ProducerSetting) -> None:
    producer = setting.producer()
    outcome: Future[BaseException] = Future()

    def callback(metadata: object, error: object) -> None:
        try:
            producer.flush()
        except RuntimeError as refused:
            outcome.set_result(refused)
        producer.close()

    producer.send("t", b"x", on_delivery=callback)
    assert "would wait for itself" in str(outcome.result(WAIT_S))
    producer._thread.join(WAIT_S)
    assert not producer._thread.is_alive()


def test_a_forked_child_can_neither_use_nor_end_its_parents_producer(
    setting: ProducerSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = setting.producer(interceptor_classes=[seen := Interceptor()])
    with monkeypatch.context() as child:
        child.setattr(sender_thread, "_process", object())
        with pytest.raises(ClientClosed, match="does not survive a fork"):
            producer.send("t", b"x")
        producer.close()
    assert producer._thread.is_alive()
    assert seen.closed == 0
    # The producer counts as closed now, so the fixture would leave its thread running.
    producer._sender.force_close()
    producer._thread.join(WAIT_S)


FORK = """
import os
from barnabas.clients.errors import ClientClosed
from barnabas.clients.producer import Producer

producer = Producer("127.0.0.1:9")
child = os.fork()
if child == 0:
    try:
        producer.send("t", b"x")
    except ClientClosed as error:
        os._exit(0 if "does not survive a fork" in str(error) else 2)
    finally:
        os._exit(1)
status = os.waitpid(child, 0)[1]
producer.close()
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


def test_a_fork_is_noticed_in_the_child_and_not_in_the_parent() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=WAIT_S)


def test_the_caller_may_choose_when_the_sending_thread_hears_of_batches(setting: ProducerSetting) -> None:
    producer = setting.producer()
    producer.partitions_for("t")
    deferred: list[Callable[[], None]] = []
    producer.defer_wakeups(deferred.append)
    future = producer.send("t", b"first", partition=0)
    (wakeup,) = deferred
    wakeup()
    assert future.result(WAIT_S).offset == 0


def test_settings_that_cannot_go_together() -> None:
    for settings, text in (
        ({"acks": 2}, "acks must be"),
        ({"delivery_timeout_ms": 30_000, "linger_ms": 1}, "equal to or larger than linger_ms"),
        ({"compression_type": "rar"}, "compression_type must be none or gzip or"),
        ({"enable_idempotence": True, "acks": 1}, "acks to all"),
        ({"enable_idempotence": True, "retries": 0}, "retries to non-zero"),
        ({"enable_idempotence": True, "max_in_flight_requests_per_connection": 6}, "at most 5"),
        ({"batch_size": -1}, "batch_size must be at least 0, not -1"),
        ({"buffer_memory": 0}, "buffer_memory"),
    ):
        with pytest.raises(ValueError, match=text):
            ProducerConfig(**settings)


# -- serializers, interceptors, partitioners, listeners


def test_serializers_by_name(setting: ProducerSetting) -> None:
    producer = setting.producer(key_serializer="str", value_serializer="json")
    producer.send("t", {"name": "Zoë", "n": [1, None]}, "key", partition=0).result(WAIT_S)
    producer.send("t", None, None, partition=0).result(WAIT_S)
    first, second = (record for batch in setting.stored[0] for record in batch.records())
    assert (first.key, first.value) == (b"key", '{"name":"Zoë","n":[1,null]}'.encode())
    assert (second.key, second.value) == (None, None)


class Registry:
    """As a serializer for a schema registry would be."""

    def serialize(self, topic: str, value: Any, headers: MutableHeaders) -> bytes:
        headers.append(("schema-id", b"7"))
        return f"{topic}:{value}".encode()


def test_serializers_that_are_functions_or_see_the_headers(setting: ProducerSetting) -> None:
    producer = setting.producer(key_serializer=lambda topic, key: b"%d" % key, value_serializer=Registry())
    producer.send("t", 5, 1, [("h", b"1")], partition=0).result(WAIT_S)
    record = next(setting.stored[0][0].records())
    assert (record.key, record.value, record.headers) == (b"1", b"t:5", (("h", b"1"), ("schema-id", b"7")))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"value_serializer": "str"},
            "Cannot serialize the value of a record for topic t, of type dict: the serializer",
        ),
        ({"value_serializer": "json"}, "Cannot serialize the value of a record for topic t, of type dict: .*bytes"),
        ({"value_serializer": lambda topic, value: 5}, "The serializer of the values of topic t returned int for dict"),
    ],
)
def test_what_cannot_be_serialized_raises(setting: ProducerSetting, settings: Any, text: str) -> None:
    seen = Interceptor()
    producer = setting.producer(interceptor_classes=[seen], **settings)
    with pytest.raises(SerializationFailed, match=text):
        producer.send("t", {"a": b"b"})
    assert len(seen.errors) == 1


class Interceptor:
    def __init__(self) -> None:
        self.places: list[RecordMetadata] = []
        self.errors: list[BaseException] = []
        self.closed = 0

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        return record._replace(headers=(*record.headers, ("seen", b"1")))

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        if metadata is not None:
            self.places.append(metadata)
        if error is not None:
            self.errors.append(error)

    def close(self) -> None:
        self.closed += 1


class Broken:
    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        raise RuntimeError("on_send")

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        raise RuntimeError("on_acknowledgement")

    def close(self) -> None:
        raise RuntimeError("close")


def test_interceptors_see_records_and_results_and_their_errors_are_logged(
    setting: ProducerSetting, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Interceptor()
    told: list[Any] = []
    producer = setting.producer(interceptor_classes=[Broken(), seen])
    metadata = producer.send("t", b"v", partition=1, on_delivery=lambda *args: told.append(args)).result(WAIT_S)
    assert next(setting.stored[1][0].records()).headers == (("seen", b"1"),)
    assert (seen.places, told) == ([metadata], [(metadata, None)])
    setting.cluster.topics["bad/name"] = int(ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert producer.send("bad/name", b"x").exception(WAIT_S) in seen.errors
    producer.close()
    assert seen.closed == 1
    assert [text in caplog.text for text in ("on_send", "on_acknowledgement", "interceptor close")] == [True] * 3


def test_partitioners_in_turn_and_by_a_function(setting: ProducerSetting) -> None:
    in_turn = setting.producer(partitioner_class="round_robin")
    chosen = [in_turn.send("t", b"v", b"same key").result(WAIT_S).partition for _ in range(6)]
    assert chosen == [0, 1, 2, 0, 1, 2]
    assert in_turn.send("t", b"v", partition=2).result(WAIT_S).partition == 2


def test_a_function_that_chooses_partitions(setting: ProducerSetting) -> None:
    producer = setting.producer(partitioner_class=lambda topic, key, value, cluster: int(value))
    assert producer.send("t", b"2", b"k").result(WAIT_S).partition == 2
    with pytest.raises(ValueError, match="The partitioner chose partition 3 of topic t, which has 3 partitions"):
        producer.send("t", b"3")


def test_listeners_see_each_new_view_of_the_cluster(setting: ProducerSetting) -> None:
    seen: list[Cluster] = []

    class Choice:
        def __call__(self, topic: str, key: object, value: object, cluster: Cluster) -> int:
            return 0

        def on_cluster_update(self, cluster: Cluster) -> None:
            seen.append(cluster)
            raise RuntimeError("logged")

    producer = setting.producer(partitioner_class=Choice())
    also_seen: list[Cluster] = []
    producer.on_cluster_update(also_seen.append)
    producer.send("t", b"v").result(WAIT_S)
    assert {cluster.cluster_id for cluster in (*seen, *also_seen)} == {"cluster"}
    assert seen
    assert also_seen


def test_a_table_is_not_given_to_a_partitioner_of_records(setting: ProducerSetting) -> None:
    producer = setting.producer(partitioner_class="round_robin")
    with pytest.raises(ValueError, match="give send_table the partitions as a column"):
        producer.send_table("t", object())


def test_metrics_by_kafkas_names(setting: ProducerSetting) -> None:
    setting.cluster.topics["bad/name"] = int(ErrorCode.INVALID_TOPIC_EXCEPTION)
    producer = setting.producer(client_id="mine")
    producer.send("t", b"v" * 10).result(WAIT_S)
    producer.flush()
    producer.send("bad/name", b"v").exception(WAIT_S)
    measured = producer.metrics()
    tags = (("client-id", "mine"),)
    assert measured[MetricName("record-send-total", "producer-metrics", tags)] == 1
    assert measured[MetricName("byte-total", "producer-topic-metrics", (*tags, ("topic", "t")))] > 61
    assert measured[MetricName("buffer-available-bytes", "producer-metrics", tags)] == 33_554_432
    assert measured[MetricName("metadata-age", "producer-metrics", tags)] >= 0
    assert measured[MetricName("record-error-total", "producer-topic-metrics", (*tags, ("topic", "bad/name")))] == 1


def test_the_time_of_a_flush_is_measured(setting: ProducerSetting, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = setting.producer(client_id="mine")
    flush_time = MetricName("flush-time-ns-total", "producer-metrics", (("client-id", "mine"),))
    assert producer.metrics()[flush_time] == 0
    monkeypatch.setattr(producer._accumulator, "await_flush", lambda: setting.cluster.clock.advance(5))
    producer.flush()
    assert producer.metrics()[flush_time] >= 5_000_000


# -- telemetry (KIP-714)


class Subscribing:
    """A broker that wants all metrics of a producer, after an interval that no test waits for."""

    def __init__(self, setting: ProducerSetting) -> None:
        cluster = setting.cluster
        cluster.extra += (GetTelemetrySubscriptionsRequest, PushTelemetryRequest)
        cluster.handlers[ApiKey.GET_TELEMETRY_SUBSCRIPTIONS] = lambda request: GetTelemetrySubscriptionsResponse(
            client_instance_id=bytes(range(16)), subscription_id=7, push_interval_ms=10**9, requested_metrics=["*"]
        )
        self.pushes: list[Any] = []
        cluster.handlers[ApiKey.PUSH_TELEMETRY] = self._push

    def _push(self, request: SentRequest) -> PushTelemetryResponse:
        self.pushes.append(request.body)
        return PushTelemetryResponse()


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_producer_pushes_its_metrics_when_it_is_closed(setting: ProducerSetting, is_idempotent: bool) -> None:
    broker = Subscribing(setting)
    producer = setting.producer(enable_idempotence=is_idempotent)
    assert producer.client_instance_id(WAIT_S * 1_000) == uuid_to_string(bytes(range(16)))
    producer.send("t", b"v").result(WAIT_S)
    producer.close()
    (last,) = broker.pushes
    assert last.terminating
    assert b"org.apache.kafka.producer.record.send.total" in last.metrics


def test_a_producer_without_telemetry_asks_for_nothing(setting: ProducerSetting) -> None:
    Subscribing(setting)
    producer = setting.producer(enable_metrics_push=False)
    producer.send("t", b"v").result(WAIT_S)
    with pytest.raises(RuntimeError, match="enable_metrics_push"):
        producer.client_instance_id(1_000)
    producer.close()
    assert setting.cluster.sent(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS) == []


def test_the_end_of_a_producer_ends_the_wait_for_its_instance_id(setting: ProducerSetting) -> None:
    producer = setting.producer()
    telemetry = producer._thread.telemetry
    assert telemetry is not None
    is_waiting = threading.Event()
    ended: list[bool] = []

    def wait(answered: threading.Event) -> None:
        is_waiting.set()
        ended.append(answered.wait(WAIT_S))

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(telemetry.client_instance_id, wait)
        assert is_waiting.wait(WAIT_S)
        producer.close()
        assert found.result(WAIT_S) is None
    assert ended == [True]
