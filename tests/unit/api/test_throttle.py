"""Requests are charged by what their API is, mute their connection when that was too much, and cost nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.api.apis import Apis
from barnabas.api.registry import Registry
from barnabas.api.request import ConnectionContext, Handler, Request
from barnabas.api.request_parser import RequestParser
from barnabas.api.throttle import QuotaThrottle, mutation_quota, respond_with_quota
from barnabas.api.throttled_by import THROTTLED_BY
from barnabas.metrics.rate import SampleWindow
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.message_index import request_class, response_class
from barnabas.protocol.messages.inter_broker import LeaderAndIsrResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.timer import SystemTimer
from barnabas.quota.client_quota_manager import QuotaWindows
from barnabas.quota.quota_entity import KafkaQuotaEntity
from barnabas.quota.quota_managers import QuotaManagers
from tests.support.mock_clock import MockClock
from tests.support.recording_channel import RecordingChannel

WINDOWS = QuotaWindows(SampleWindow(11, 1000), SampleWindow(2, 30_000))
APIS = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.METADATA: 9,
    ApiKey.LEADER_AND_ISR: 5,
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.API_VERSIONS: 0,
}
MILLISECOND = 1_000_000


class Broker:
    """Handlers that take some time, and answer with what their API's answer is by default."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.timer = SystemTimer(self.clock, lambda task: task())
        self.quotas = QuotaManagers(WINDOWS, WINDOWS, self.clock)
        self.registry = Registry([Handler(key, self.handle, versions=(0, APIS[key])) for key in APIS])
        QuotaThrottle(self.quotas, self.timer, self.clock).guard(self.registry)
        self.apis = Apis(ActionQueue(), self.clock.nanoseconds)
        self.parser = RequestParser(self.registry)
        self.channel = RecordingChannel()
        self.connection = ConnectionContext("id", "127.0.0.1", "PLAINTEXT", "PLAINTEXT", "User:al ice")
        self.handling_ms = 0.0
        self.partitions = 0

    def handle(self, request: Request[Any]) -> None:
        self.clock.advance(self.handling_ms)
        key = request.handler.api_key
        if key is ApiKey.PRODUCE and request.body.acks == 0:
            request.no_response()
            return
        if key is ApiKey.CREATE_TOPICS:
            quota = mutation_quota(request, 6)
            quota.record(self.partitions)
            respond_with_quota(request, quota, response_class(key)())
            return
        request.respond(response_class(key)())

    def run(self, key: ApiKey, body: Message | None = None) -> Request[Any]:
        version = APIS[key]
        message = request_class(key)() if body is None else body
        header = encode_request_header(key, version, 1, "client")
        frame = header + b"".join(map(bytes, message.encode(version)))
        request = self.parser.parse(frame, self.connection, channel=self.channel, received_ns=1)
        request.dequeued_ns = self.clock.nanoseconds()
        self.channel.events.clear()
        self.apis.handle(request)
        return request

    def limit(self, settings: Mapping[str, str], user: str = "al%20ice") -> None:
        self.quotas.update(KafkaQuotaEntity(user, None), settings)

    def guarded(self) -> set[ApiKey]:
        return {handler.api_key for handler in self.registry if handler.throttle is not None}


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_only_what_a_quota_is_for_is_charged(broker: Broker) -> None:
    assert broker.guarded() == set()
    broker.limit({"producer_byte_rate": "1"})
    assert broker.guarded() == {ApiKey.PRODUCE}
    broker.limit({"consumer_byte_rate": "1"})
    assert broker.guarded() == {ApiKey.FETCH}
    broker.limit({"controller_mutation_rate": "1"})
    assert broker.guarded() == {ApiKey.CREATE_TOPICS, ApiKey.METADATA}
    broker.limit({"request_percentage": "1"})
    assert broker.guarded() == set(APIS)
    broker.limit({})
    assert broker.guarded() == set()
    assert broker.run(ApiKey.METADATA).record_network_time is None


def test_every_client_api_pays_for_its_time() -> None:
    between_brokers = {4, 5, 6, 7, 27, 56}
    assert {key for key, kind in THROTTLED_BY.items() if kind.name == "NOTHING"} == between_brokers


def test_produce_pays_for_its_bytes_and_its_time(broker: Broker) -> None:
    broker.limit({"producer_byte_rate": "10", "request_percentage": "1"})
    records = ProduceRequest.TopicProduceData(
        name="t", partition_data=[ProduceRequest.PartitionProduceData(0, b"x" * 500)]
    )
    request = broker.run(ApiKey.PRODUCE, ProduceRequest(None, 1, 0, [records]))
    wait_ms = round((request.request_size / 10 - 10) * 1000)
    assert broker.channel.events == ["start_throttling", "send"]
    assert broker.channel.answer().throttle_time_ms == request.throttle_time_ms == wait_ms
    assert broker.quotas.produce.throttled_channels == 1
    broker.clock.advance(wait_ms - 1)
    broker.timer.advance()
    assert broker.channel.events[-1] == "send"
    broker.clock.advance(1)
    broker.timer.advance()
    assert broker.channel.events[-1] == "end_throttling"
    assert broker.quotas.produce.throttled_channels == 0
    # The larger time wins: 150 ms are 50 more than one percent of ten seconds.
    broker.clock.advance(60_000)
    broker.handling_ms = 150
    request = broker.run(ApiKey.PRODUCE, ProduceRequest(None, 1, 0, []))
    assert request.throttle_time_ms == 1000  # 5 seconds, but never more than a sample
    assert (broker.quotas.produce.throttled_channels, broker.quotas.request.throttled_channels) == (0, 1)


def test_a_produce_without_an_answer_pays_for_its_bytes_alone(broker: Broker) -> None:
    broker.limit({"producer_byte_rate": "1", "request_percentage": "0.1"})
    broker.handling_ms = 5000
    broker.run(ApiKey.PRODUCE, ProduceRequest(None, 0, 0, []))
    assert broker.channel.events == ["start_throttling", "no_op"]
    assert broker.quotas.request.throttled_channels == 0
    assert broker.quotas.request.exempt_request_time(broker.quotas.now_ms()) > 0


def test_time_is_charged_with_what_the_network_thread_needs(broker: Broker) -> None:
    broker.limit({"request_percentage": "1"})
    broker.handling_ms = 60
    request = broker.run(ApiKey.METADATA)
    assert request.throttle_time_ms == 0
    assert request.record_network_time is not None
    request.record_network_time(50 * MILLISECOND)
    broker.handling_ms = 0
    request = broker.run(ApiKey.METADATA)
    assert 900 <= request.throttle_time_ms <= 1000  # ten milliseconds more than allowed
    assert broker.channel.answer().throttle_time_ms == request.throttle_time_ms


def test_an_answer_without_the_field_mutes_all_the_same(broker: Broker) -> None:
    broker.limit({"request_percentage": "0.001"})
    broker.handling_ms = 60
    broker.run(ApiKey.API_VERSIONS)
    assert broker.channel.events == ["start_throttling", "send"]


def test_brokers_are_not_charged(broker: Broker) -> None:
    broker.limit({"request_percentage": "0.001"})
    broker.handling_ms = 300
    broker.run(ApiKey.LEADER_AND_ISR)
    assert broker.channel.events == ["send"]
    assert broker.quotas.request.exempt_request_time(broker.quotas.now_ms()) == pytest.approx(1.0, rel=0.01)


def test_who_only_pretends_to_be_a_broker_is_charged(broker: Broker) -> None:
    broker.limit({"request_percentage": "0.001"})

    def refuse(request: Request[Any]) -> None:
        broker.clock.advance(300)
        request.respond(LeaderAndIsrResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

    broker.registry.handlers[ApiKey.LEADER_AND_ISR].handle = refuse
    broker.run(ApiKey.LEADER_AND_ISR)
    assert broker.channel.events == ["start_throttling", "send"]


def test_a_fetch_that_is_throttled_is_not_counted(broker: Broker) -> None:
    broker.limit({"consumer_byte_rate": "100"})
    request = broker.run(ApiKey.FETCH)
    throttle = request.handler.throttle
    assert throttle is not None
    assert throttle.max_fetch_bytes(request) == 1000
    assert throttle.charge_fetch(request, 900) == 0
    assert throttle.charge_fetch(request, 200) == 1000
    assert throttle.charge_fetch(request, 100) == 0


def test_mutations_pay_by_partition(broker: Broker) -> None:
    broker.limit({"controller_mutation_rate": "2"})
    broker.partitions = 42
    assert broker.run(ApiKey.CREATE_TOPICS).throttle_time_ms == 0  # 22 credits were left
    with pytest.raises(ApiError) as refused:
        broker.handle(broker.run(ApiKey.CREATE_TOPICS))
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_quota_that_comes_up_while_a_request_is_answered_mutes_nothing_twice(broker: Broker) -> None:
    broker.limit({"controller_mutation_rate": "2"})
    broker.handling_ms = 300
    request = broker.run(ApiKey.CREATE_TOPICS)
    throttle = request.handler.throttle
    assert throttle is not None
    request.throttle_time_ms = 1000  # its mutations were too many
    broker.limit({"controller_mutation_rate": "2", "request_percentage": "0.001"})
    throttle.charge(request, response_class(ApiKey.CREATE_TOPICS)())
    assert broker.channel.events == ["send"]


def test_another_user_is_not_charged(broker: Broker) -> None:
    broker.limit({"request_percentage": "0.001"}, user="bob")
    broker.handling_ms = 300
    assert broker.run(ApiKey.METADATA).throttle_time_ms == 0
