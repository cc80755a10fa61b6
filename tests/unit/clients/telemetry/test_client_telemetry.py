"""A client's telemetry on scripted brokers: when it asks, when and what it pushes, errors, and the end."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.client_metrics import MetricName
from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.telemetry.client_telemetry import LAST_PUSH_MS, ClientTelemetry
from barnabas.clients.telemetry.subscription import DEFAULT_INTERVAL_MS, TelemetryState
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID, uuid_to_string
from barnabas.records.compression import Codec, decompress
from barnabas.rpc.network_client_config import NetworkClientConfig
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.scripted_selector import SentRequest

INSTANCE = bytes(range(16))
INTERVAL_MS = 10_000
SENT_TOTAL = MetricName("record-send-total", "producer-metrics", (("client-id", "c"),))


class Setting:
    """A client whose broker wants all metrics, uncompressed; `subscription` and `errors` change its answers."""

    def __init__(self, *, offered: bool = True, id_wanted: bool = True, **subscription: Any) -> None:
        extra = (GetTelemetrySubscriptionsRequest, PushTelemetryRequest) if offered else ()
        self.cluster = ScriptedCluster({"t": [0]}, extra=extra)
        self.cluster.handlers[ApiKey.GET_TELEMETRY_SUBSCRIPTIONS] = self._subscribe
        self.cluster.handlers[ApiKey.PUSH_TELEMETRY] = self._push
        self.subscription: dict[str, Any] = {
            "client_instance_id": INSTANCE,
            "subscription_id": 7,
            "accepted_compression_types": [],
            "push_interval_ms": INTERVAL_MS,
            "telemetry_max_bytes": 1_000_000,
            "delta_temporality": True,
            "requested_metrics": ["*"],
            **subscription,
        }
        self.errors: list[ErrorCode] = []
        """The answers to the next requests; then none has an error."""
        self.measured: dict[MetricName, float] = {SENT_TOTAL: 3.0}
        self.labels = {"group_id": "g"}
        self.is_silent = False
        self.changes: dict[str, Any] = {}
        """Changes of the subscription, as of the first push."""
        # As consumers have it: a push does not wait for a fetch.
        self.client: BlockingClient = self.cluster.client(NetworkClientConfig(max_in_flight=100))
        self.client.start_telemetry(lambda: self.measured, lambda: self.labels)
        if id_wanted:
            # Without it, a client that reads nothing has no connection to ask over.
            assert self.telemetry.client_instance_id(lambda answered: None) is None

    @property
    def telemetry(self) -> ClientTelemetry:
        assert self.client.telemetry is not None
        return self.client.telemetry

    def is_in(self, state: TelemetryState) -> bool:
        return self.telemetry.state is state

    def _error(self) -> int:
        return int(self.errors.pop(0)) if self.errors else 0

    def _subscribe(self, request: SentRequest) -> GetTelemetrySubscriptionsResponse | None:
        error = self._error()
        return None if self.is_silent else GetTelemetrySubscriptionsResponse(error_code=error, **self.subscription)

    def _push(self, request: SentRequest) -> PushTelemetryResponse | None:
        self.subscription.update(self.changes)
        return None if self.is_silent else PushTelemetryResponse(error_code=self._error())

    def run(self, duration_ms: int) -> None:
        """Poll for this long, as a consumer that gets no records does."""
        end_ms = self.client.now_ms() + duration_ms
        while self.client.now_ms() < end_ms:
            self.client.poll(end_ms - self.client.now_ms())

    @property
    def asked(self) -> list[SentRequest]:
        return self._sent(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)

    @property
    def pushed(self) -> list[SentRequest]:
        return self._sent(ApiKey.PUSH_TELEMETRY)

    def _sent(self, api_key: ApiKey) -> list[SentRequest]:
        # A request that gets no answer is offered to the broker in each poll.
        return list(dict.fromkeys(self.cluster.sent(api_key)))


def test_a_broker_without_the_api_is_asked_nothing() -> None:
    setting = Setting(offered=False)
    setting.run(3 * DEFAULT_INTERVAL_MS)
    assert setting.asked == setting.pushed == []
    assert setting.telemetry.state is TelemetryState.SUBSCRIPTION_NEEDED
    now_ms = setting.client.now_ms()
    setting.client.close(LAST_PUSH_MS)
    assert setting.client.now_ms() == now_ms, "a close waits for no broker"


def test_no_connection_is_made_to_ask() -> None:
    setting = Setting(id_wanted=False)
    setting.run(DEFAULT_INTERVAL_MS)
    assert setting.asked == []
    setting.client.await_topics(["t"], setting.client.now_ms() + 1_000)
    node = setting.client.metadata.cluster.nodes[0]
    setting.client.network.ready(node, setting.client.now_ms())
    setting.run(1_000)
    assert len(setting.asked) == 1


def test_a_client_asks_once_and_pushes_after_each_interval() -> None:
    setting = Setting()
    setting.run(INTERVAL_MS // 2 - 100)
    assert [each.body.client_instance_id for each in setting.asked] == [ZERO_UUID]
    assert setting.pushed == [], "the first push comes after half an interval at the soonest"
    setting.run(INTERVAL_MS + 200)
    assert len(setting.pushed) in (1, 2), "and after one and a half at the latest"
    before = len(setting.pushed)
    setting.run(3 * INTERVAL_MS)
    assert len(setting.pushed) == before + 3
    assert len(setting.asked) == 1
    body = setting.pushed[0].body
    assert (body.client_instance_id, body.subscription_id, body.terminating, body.compression_type) == (
        INSTANCE,
        7,
        False,
        0,
    )
    assert b"org.apache.kafka.producer.record.send.total" in body.metrics
    assert b"group_id" in body.metrics


def test_a_label_that_comes_later_stays() -> None:
    setting = Setting()
    setting.run(2 * INTERVAL_MS)
    setting.labels["group_member_id"] = "m-1"
    setting.run(INTERVAL_MS)
    del setting.labels["group_member_id"]
    setting.run(INTERVAL_MS)
    bodies = [request.body.metrics for request in setting.pushed]
    assert b"m-1" not in bodies[0]
    assert b"m-1" in bodies[-2]
    assert b"m-1" in bodies[-1]


def test_the_first_codec_that_is_known_compresses() -> None:
    setting = Setting(accepted_compression_types=[77, int(Codec.ZSTD), int(Codec.GZIP)])
    setting.run(2 * INTERVAL_MS)
    body = setting.pushed[0].body
    assert body.compression_type == Codec.ZSTD
    assert b"record.send.total" in decompress(Codec.ZSTD, body.metrics)


def test_only_metrics_that_are_wanted_are_pushed() -> None:
    setting = Setting(requested_metrics=["org.apache.kafka.producer.batch", "org.apache.kafka.producer.record.q"])
    setting.measured[MetricName("batch-size-avg", "producer-metrics")] = 1.0
    setting.run(2 * INTERVAL_MS)
    assert b"batch.size.avg" in setting.pushed[0].body.metrics
    assert b"record.send.total" not in setting.pushed[0].body.metrics


def test_without_wanted_metrics_the_subscription_is_asked_for_after_each_interval_with_the_same_id() -> None:
    setting = Setting(requested_metrics=[])
    setting.run(3 * INTERVAL_MS + 100)
    assert setting.pushed == []
    assert [each.body.client_instance_id for each in setting.asked] == [ZERO_UUID, INSTANCE, INSTANCE, INSTANCE]
    setting.client.close(LAST_PUSH_MS)
    assert setting.pushed == []


def test_an_unknown_subscription_is_asked_for_at_once() -> None:
    setting = Setting()
    setting.errors = [ErrorCode.NONE, ErrorCode.UNKNOWN_SUBSCRIPTION_ID]
    setting.changes = {"subscription_id": 8}
    while not setting.pushed:
        setting.run(100)
    setting.run(100)
    assert [each.body.client_instance_id for each in setting.asked] == [ZERO_UUID, INSTANCE]
    setting.run(2 * INTERVAL_MS)
    assert setting.pushed[1].body.subscription_id == 8


@pytest.mark.parametrize("error", [ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
def test_a_push_that_is_too_large_or_too_soon_waits_for_the_interval(error: ErrorCode) -> None:
    setting = Setting()
    setting.errors = [ErrorCode.NONE, error]
    while not setting.pushed:
        setting.run(100)
    setting.run(INTERVAL_MS - 300)
    assert len(setting.asked) == 1
    setting.run(600)
    assert len(setting.asked) == 2
    assert len(setting.pushed) == 1


@pytest.mark.parametrize("answers", [[ErrorCode.INVALID_REQUEST], [ErrorCode.NONE, ErrorCode.INVALID_RECORD]])
def test_an_error_that_no_retry_mends_ends_telemetry(answers: list[ErrorCode]) -> None:
    setting = Setting()
    setting.errors = list(answers)
    setting.run(3 * DEFAULT_INTERVAL_MS)
    assert len(setting.asked) + len(setting.pushed) == len(answers)
    assert setting.telemetry.state is TelemetryState.TERMINATED


def test_a_lost_connection_waits_for_an_interval_and_keeps_the_id() -> None:
    setting = Setting()
    while not setting.pushed:
        setting.is_silent = bool(setting.asked) and setting.telemetry.state is TelemetryState.PUSH_NEEDED
        setting.run(100)
    setting.is_silent = False
    for connection_id in list(setting.cluster.selector.channels):
        setting.cluster.selector.disconnect(connection_id)
    setting.cluster.selector.sent.clear()
    setting.run(INTERVAL_MS - 300)
    assert len(setting.asked) == 1
    setting.client.metadata.request_update()
    setting.run(2 * INTERVAL_MS)
    assert [each.body.client_instance_id for each in setting.asked] == [ZERO_UUID, INSTANCE]
    assert len(setting.pushed) >= 2


def test_a_change_of_temporality_begins_the_sums_again() -> None:
    setting = Setting(delta_temporality=False)
    setting.errors = [ErrorCode.NONE, ErrorCode.UNKNOWN_SUBSCRIPTION_ID]
    setting.changes = {"delta_temporality": True}
    setting.run(3 * INTERVAL_MS)
    cumulative, delta = bytes([0x10, 2, 0x18, 1]), bytes([0x10, 1, 0x18, 1])
    assert setting.pushed[0].body.metrics.endswith(cumulative)
    assert setting.pushed[1].body.metrics.endswith(delta)


def test_metrics_that_cannot_be_measured_do_not_disturb_the_client(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    setting.run(100)
    measured = setting.measured
    setting.measured = None  # type: ignore[assignment]
    setting.run(2 * INTERVAL_MS)
    assert setting.pushed == []
    assert "cannot be pushed" in caplog.text
    setting.measured = measured
    setting.run(2 * INTERVAL_MS)
    assert setting.pushed != []


def test_the_last_push_is_sent_at_the_close_without_an_interval() -> None:
    setting = Setting()
    setting.run(100)
    setting.client.close(LAST_PUSH_MS)
    assert [each.body.terminating for each in setting.pushed] == [True]
    assert setting.telemetry.state is TelemetryState.TERMINATED


def test_a_broker_that_does_not_answer_the_last_push_holds_the_close_up_for_a_second() -> None:
    setting = Setting()
    setting.run(100)
    setting.is_silent = True
    before_ms = setting.client.now_ms()
    setting.client.close(LAST_PUSH_MS)
    assert len(setting.pushed) >= 1
    assert setting.client.now_ms() - before_ms <= LAST_PUSH_MS + 1


def test_a_close_during_a_push_sends_the_last_one_too() -> None:
    setting = Setting()
    setting.is_silent = False
    setting.run(100)
    setting.is_silent = True
    while not setting.is_in(TelemetryState.PUSH_IN_PROGRESS):
        setting.run(100)
    setting.is_silent = False
    setting.client.close(LAST_PUSH_MS)
    assert setting.pushed[-1].body.terminating
    assert setting.telemetry.state is TelemetryState.TERMINATED


# -- the consumer


def consumer_of(setting: Setting, **settings: Any) -> Consumer:
    consumer = Consumer("", client=setting.client, auto_offset_reset="earliest", **settings)
    consumer.assign([TopicPartition("t", 0)])
    return consumer


def test_a_consumer_knows_its_instance_id_and_pushes_in_its_polls() -> None:
    setting = Setting()
    consumer = consumer_of(setting)
    assert consumer.client_instance_id(5_000) == uuid_to_string(INSTANCE)
    for _ in range(40):
        consumer.poll(1_000)
    assert b"org.apache.kafka.consumer.fetch.manager.fetch.total" in setting.pushed[0].body.metrics
    consumer.close()
    assert setting.pushed[-1].body.terminating


def test_a_consumer_has_no_id_where_the_broker_gives_none() -> None:
    consumer = consumer_of(Setting(offered=False))
    assert consumer.client_instance_id(2_000) is None
    with pytest.raises(ValueError, match="cannot be negative"):
        consumer.client_instance_id(-1)


def test_enable_metrics_push_switches_telemetry_off() -> None:
    setting = Setting()
    setting.client = setting.cluster.client()
    consumer = consumer_of(setting, enable_metrics_push=False)
    for _ in range(20):
        consumer.poll(1_000)
    assert setting.asked == []
    with pytest.raises(RuntimeError, match="enable_metrics_push"):
        consumer.client_instance_id(1_000)
    consumer.close()
