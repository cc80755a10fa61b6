"""NetworkClient on a scripted selector: connecting, versions, completion, timeouts, lost connections."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.connection_states import Node
from barnabas.rpc.metadata_updater import ManualMetadataUpdater
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.transport.channel.kafka_channel import ChannelState
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector, all_versions
from tests.unit.rpc.network_client_harness import NODES, Setting


@pytest.mark.parametrize("discovers", [True, False])
def test_a_connection_that_is_made_and_lost_in_one_poll_is_made_again(discovers: bool) -> None:
    setting = Setting(discover_broker_versions=discovers)
    assert not setting.client.ready(NODES[0], setting.now)
    setting.selector.disconnect("0", ChannelState.READY)
    setting.poll()
    setting.clock.advance(1_000)
    assert not setting.client.ready(NODES[0], setting.now)
    assert len(setting.selector.attempts) == 2
    setting.poll()
    assert len(setting.selector.sent) == discovers
    assert setting.client.ready(NODES[0], setting.now) is not discovers


def test_connects_asks_for_versions_and_becomes_ready() -> None:
    setting = Setting()
    assert not setting.client.ready(NODES[0], setting.now)
    assert setting.selector.attempts == [("0", ("10.0.0.1", 9092))]
    assert not setting.client.ready(NODES[0], setting.now)
    assert len(setting.selector.attempts) == 1
    setting.poll()
    request = setting.selector.take()
    assert (request.header.api_key, request.header.client_id) == (ApiKey.API_VERSIONS, "test")
    assert request.header.api_version == 4
    assert request.body.client_software_name == "barnabas"
    assert not setting.client.ready(NODES[0], setting.now)
    setting.selector.answer(request, all_versions(MetadataRequest))
    setting.poll()
    assert setting.client.ready(NODES[0], setting.now)


@pytest.mark.parametrize(("known", "second"), [([(18, 0, 2)], 2), ([], 0), ([(18, 0, 9)], 3)])
def test_version_negotiation_falls_back_after_error_35(known: list[tuple[int, int, int]], second: int) -> None:
    setting = Setting()
    setting.client.ready(NODES[0], setting.now)
    setting.poll()
    request = setting.selector.take()
    keys = [ApiVersionsResponse.ApiVersion(*entry) for entry in known]
    setting.selector.answer(request, ApiVersionsResponse(error_code=35, api_keys=keys), version=0)
    setting.poll()
    request = setting.selector.take()
    assert request.header.api_version == second
    setting.selector.answer(request, all_versions(MetadataRequest))
    setting.poll()
    assert setting.client.ready(NODES[0], setting.now)


def test_the_newest_features_that_any_node_tells_are_known() -> None:
    setting = Setting()
    assert setting.client.feature_level("transaction.version") == 0
    for node, epoch, level in ((NODES[0], 3, 1), (NODES[1], 5, 2), (NODES[2], 4, 1)):
        versions = all_versions(MetadataRequest)
        versions.finalized_features = [ApiVersionsResponse.FinalizedFeatureKey("transaction.version", level, 0)]
        versions.finalized_features_epoch = epoch
        setting.make_ready(node, versions)
    assert setting.client.feature_level("transaction.version") == 2
    assert setting.client.feature_level("metadata.version") == 0
    # What a lost connection has told stays known.
    for node in NODES:
        setting.client.disconnect(node.id)
    assert setting.client.feature_level("transaction.version") == 2


def test_versions_refused_with_another_error_close_the_connection() -> None:
    setting = Setting()
    setting.client.ready(NODES[0], setting.now)
    setting.poll()
    setting.selector.answer(setting.selector.take(), ApiVersionsResponse(error_code=58))
    setting.poll()
    assert setting.selector.closed == ["0"]
    assert setting.client.connection_failed(NODES[0], setting.now)


def test_uses_the_latest_version_both_know_and_reports_when_there_is_none() -> None:
    setting = Setting()
    old = ApiVersionsResponse(api_keys=[ApiVersionsResponse.ApiVersion(3, 0, 5)])
    setting.make_ready(versions=old)
    setting.send()
    setting.poll()
    request = setting.selector.take()
    assert request.header.api_version == 5
    setting.selector.answer(request, MetadataResponse(controller_id=7))
    setting.poll()
    assert isinstance(setting.answers[0].body, MetadataResponse)
    assert setting.answers[0].body.controller_id == 7
    setting.send(versions=(8, 13))
    produce = setting.client.new_request(0, ProduceRequest(), callback=setting.answers.append)
    setting.client.send(produce, setting.now)
    setting.poll()
    assert "range [8,13]" in str(setting.answers[1].version_error)
    assert "does not support PRODUCE" in str(setting.answers[2].version_error)
    assert not setting.selector.sent


def test_answers_complete_in_order_and_limit_what_is_in_flight() -> None:
    setting = Setting(max_in_flight=2)
    setting.make_ready()
    setting.send()
    assert not setting.client.ready(NODES[0], setting.now), "the send is not finished"
    with pytest.raises(RuntimeError):
        setting.send()
    setting.poll()
    setting.send()
    setting.poll()
    assert not setting.client.ready(NODES[0], setting.now), "two are in flight"
    first, second = setting.selector.take(), setting.selector.take()
    setting.selector.answer(first, MetadataResponse(controller_id=1))
    setting.selector.answer(second, MetadataResponse(controller_id=2))
    setting.poll()
    assert [getattr(answer.body, "controller_id", None) for answer in setting.answers] == [1, 2]
    assert setting.client.in_flight_count() == 0


def test_a_request_without_answer_completes_when_sent() -> None:
    setting = Setting()
    setting.make_ready()
    setting.selector.sends = False
    request = setting.client.new_request(0, ProduceRequest(), expects_response=False, callback=setting.answers.append)
    setting.client.send(request, setting.now)
    setting.poll()
    assert not setting.answers
    setting.selector._next_sends.append(setting.selector.channels["0"])
    setting.poll()
    assert setting.answers[0].body is None
    assert not setting.answers[0].disconnected
    assert setting.client.in_flight_count(0) == 0


def test_a_lost_connection_fails_its_requests_and_no_others() -> None:
    setting = Setting()
    setting.make_ready(NODES[0])
    setting.make_ready(NODES[1])
    setting.send(NODES[0])
    setting.send(NODES[1])
    setting.poll()
    setting.send(NODES[0])
    setting.selector.disconnect("0")
    setting.poll()
    assert [(a.request.node_id, a.disconnected, a.timed_out) for a in setting.answers] == [(0, True, False)] * 2
    assert setting.client.in_flight_count(1) == 1
    assert not setting.client.ready(NODES[0], setting.now)
    assert len(setting.selector.attempts) == 2, "it waits first"


def test_frames_received_before_the_disconnect_still_count() -> None:
    setting = Setting()
    setting.make_ready()
    setting.send()
    setting.poll()
    setting.selector.answer(setting.selector.take(), MetadataResponse())
    setting.selector.disconnect("0")
    setting.poll()
    assert [answer.disconnected for answer in setting.answers] == [False]


def test_a_slow_answer_closes_the_connection() -> None:
    setting = Setting(request_timeout_ms=1000)
    setting.make_ready()
    setting.send()
    setting.poll()
    setting.send(timeout_ms=5000)
    setting.clock.advance(1000)
    setting.poll()
    assert not setting.answers
    setting.clock.advance(1)
    setting.poll()
    assert [(a.disconnected, a.timed_out) for a in setting.answers] == [(True, True)] * 2
    assert setting.selector.closed == ["0"]


def test_connection_set_up_times_out_and_the_next_address_is_tried_after_a_growing_wait() -> None:
    setting = Setting(connection_setup_timeout_ms=100, reconnect_backoff_ms=50, reconnect_backoff_max_ms=150)
    setting.selector.connects = False
    setting.client.ready(NODES[0], setting.now)
    setting.poll()
    assert setting.selector.last_timeout_ms == 100
    setting.clock.advance(101)
    setting.poll()
    assert setting.selector.closed == ["0"]
    for wait, address in ((50, "10.0.0.2"), (100, "10.0.0.1"), (150, "10.0.0.2"), (150, "10.0.0.1")):
        setting.clock.advance(wait - 1)
        assert setting.client.connection_failed(NODES[0], setting.now)
        assert not setting.client.ready(NODES[0], setting.now)
        setting.clock.advance(1)
        attempts = len(setting.selector.attempts)
        setting.client.ready(NODES[0], setting.now)
        assert setting.selector.attempts[attempts:] == [("0", (address, 9092))]
        setting.selector.disconnect("0", ChannelState.NOT_CONNECTED)
        setting.poll()


def attempts_that_fail(setting: Setting, count: int, node: Node = NODES[0]) -> list[str]:
    """The addresses of the next attempts."""
    setting.selector.connects = False
    setting.selector.attempts.clear()
    for _ in range(count):
        setting.clock.advance(10_000)
        setting.client.ready(node, setting.now)
        setting.selector.disconnect(str(node.id), ChannelState.NOT_CONNECTED)
        setting.poll()
    return [address for _, (address, _) in setting.selector.attempts]


def test_a_lost_connection_is_made_again_to_an_address_that_is_looked_up_anew_and_not_to_the_lost_one() -> None:
    setting = Setting()
    setting.names["a"] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    setting.make_ready()
    setting.names["a"] = ["10.0.0.1", "10.0.0.8", "10.0.0.9"]
    setting.selector.disconnect("0")
    setting.poll()
    assert attempts_that_fail(setting, 3) == ["10.0.0.8", "10.0.0.9", "10.0.0.1"]


def test_attempts_use_up_all_addresses_before_the_name_is_looked_up_again() -> None:
    setting = Setting()
    assert attempts_that_fail(setting, 1) == ["10.0.0.1"]
    setting.names["a"] = ["10.0.0.8"]
    assert attempts_that_fail(setting, 3) == ["10.0.0.2", "10.0.0.8", "10.0.0.8"]


def test_a_node_that_moves_to_another_host_is_not_sought_at_the_addresses_of_the_old_one() -> None:
    setting = Setting()
    setting.names["moved"] = ["10.0.9.9"]
    assert attempts_that_fail(setting, 1) == ["10.0.0.1"]
    assert attempts_that_fail(setting, 1, Node(0, "moved", 9092)) == ["10.0.9.9"]


def test_the_set_up_timeout_doubles_up_to_its_maximum_and_a_connection_resets_it() -> None:
    setting = Setting(
        connection_setup_timeout_ms=100, connection_setup_timeout_max_ms=300, reconnect_backoff_ms=1, max_in_flight=1
    )
    setting.selector.connects = False

    def timeout_of_attempt() -> float:
        setting.clock.advance(1_000)
        setting.client.ready(NODES[0], setting.now)
        setting.client.poll(10_000, setting.now)
        return setting.selector.last_timeout_ms - 1

    timeouts = []
    for _ in range(4):
        timeouts.append(timeout_of_attempt())
        setting.clock.advance(timeouts[-1])
        setting.poll()
        assert not setting.client.connection_failed(NODES[0], setting.now), "not too early"
        setting.clock.advance(1)
        setting.poll()
        assert setting.client.connection_failed(NODES[0], setting.now)
    assert timeouts == [100, 200, 300, 300]
    timeout_of_attempt()
    setting.selector.finish_connect("0")
    setting.poll()
    setting.selector.disconnect("0")
    setting.poll()
    assert timeout_of_attempt() == 100


def test_the_set_up_timeout_is_drawn_from_a_fifth_around_it() -> None:
    clock = MockClock()
    selector = ScriptedSelector(clock)
    selector.connects = False
    config = NetworkClientConfig(connection_setup_timeout_ms=10_000, connection_setup_timeout_max_ms=30_000)
    client = NetworkClient(selector, ManualMetadataUpdater(NODES), config, clock, Random(1), resolve=lambda *_: ("x",))
    timeouts = set()
    for node in range(20):
        client.ready(Node(node, "a", 9092), client.now_ms())
        # The first poll ends when the attempt is reported as slow.
        client.poll(100_000, client.now_ms())
        clock.advance(2_000)
        client.poll(100_000, client.now_ms())
        client.poll(100_000, client.now_ms())
        timeouts.add(selector.last_timeout_ms + 2_000)
        client.close_connection(node)
    assert all(8_000 <= timeout <= 12_001 for timeout in timeouts)
    assert len(timeouts) > 10


def test_a_connect_that_cannot_begin_waits_too() -> None:
    setting = Setting()
    setting.selector.refused.add("0")
    setting.client.ready(NODES[0], setting.now)
    assert setting.client.connection_failed(NODES[0], setting.now)
    assert setting.client.poll_delay_ms(NODES[0], setting.now) == 50


@pytest.mark.parametrize("frame", [b"", b"\x00\x00", b"\x7f\xff\xff\xff" + b"\x00" * 20, b"\xff" * 40])
def test_an_unreadable_answer_fails_the_request_and_the_connection(frame: bytes) -> None:
    setting = Setting()
    setting.make_ready()
    setting.send()
    setting.poll()
    setting.selector.answer_raw("0", frame)
    setting.poll()
    assert [answer.disconnected for answer in setting.answers] == [True]
    assert setting.selector.closed == ["0"]


def test_an_answer_nobody_asked_for_closes_the_connection() -> None:
    setting = Setting()
    setting.make_ready()
    setting.selector.answer_raw("0", b"\x00" * 8)
    setting.poll()
    assert setting.selector.closed == ["0"]


def test_throttling_holds_requests_back() -> None:
    setting = Setting()
    setting.make_ready()
    setting.send()
    setting.poll()
    setting.selector.answer(setting.selector.take(), MetadataResponse(throttle_time_ms=500))
    setting.poll()
    assert not setting.client.ready(NODES[0], setting.now)
    assert setting.client.poll_delay_ms(NODES[0], setting.now) == 500
    setting.clock.advance(500)
    assert setting.client.ready(NODES[0], setting.now)


def test_least_loaded_node() -> None:
    setting = Setting()
    client = setting.client
    assert client.least_loaded_node(setting.now) == NODES[0]
    setting.selector.refused.update("012")
    client.initiate_connect(NODES[0], setting.now)
    setting.clock.advance(1)
    client.initiate_connect(NODES[1], setting.now)
    assert client.least_loaded_node(setting.now) == NODES[2], "the only one that may be tried"
    client.initiate_connect(NODES[2], setting.now)
    assert client.least_loaded_node(setting.now) is None
    setting.clock.advance(49)
    assert client.least_loaded_node(setting.now) == NODES[0], "its wait is over"
    setting.selector.refused.clear()
    setting.clock.advance(100)
    setting.make_ready(NODES[1])
    assert client.least_loaded_node(setting.now) == NODES[1]
    setting.send(NODES[1])
    setting.poll()
    setting.make_ready(NODES[2])
    assert client.least_loaded_node(setting.now) == NODES[2]
    setting.updater.set_nodes([])
    assert client.least_loaded_node(setting.now) is None


def test_disconnecting_fails_requests_in_the_next_poll_and_forgetting_drops_them() -> None:
    setting = Setting()
    setting.make_ready()
    setting.send()
    setting.client.disconnect(0)
    assert not setting.answers
    setting.poll()
    assert [answer.disconnected for answer in setting.answers] == [True]
    setting.clock.advance(1000)
    setting.selector.sent.clear()
    setting.make_ready()
    setting.send()
    setting.client.close_connection(0)
    setting.poll()
    assert len(setting.answers) == 1
    assert setting.client.can_connect(0, setting.now)


def test_a_failing_callback_does_not_keep_the_others_from_being_told() -> None:
    setting = Setting()
    setting.make_ready()

    def fail(response: ClientResponse) -> None:
        raise ValueError("callback")

    setting.client.send(setting.client.new_request(0, MetadataRequest(), callback=fail), setting.now)
    setting.poll()
    setting.send()
    setting.selector.disconnect("0")
    setting.poll()
    assert len(setting.answers) == 1


def test_records_of_a_request_are_pieces_of_the_frame() -> None:
    from barnabas.rpc.in_flight_requests import request_frame

    records = memoryview(b"r" * 1000)
    data = ProduceRequest.PartitionProduceData(0, records)
    message = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData("t", partition_data=[data])])
    pieces = request_frame(message, 9, 1, "c")
    assert any(piece is records for piece in pieces)


def test_an_attempt_that_hangs_is_reported_long_before_it_times_out(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    setting.selector.connects = False
    setting.selector.passes_time = True
    setting.client.ready(NODES[0], setting.now)
    while not caplog.messages:
        setting.client.poll(60_000, setting.now)
    assert setting.now == 2_001
    assert caplog.messages == ["Cannot connect to broker a:9092 (id: 0): no answer yet. Still waiting."]


def test_a_server_that_closes_each_connection_is_reported_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    setting.client.ready(NODES[0], setting.now)
    setting.poll()
    setting.selector.disconnect("0", ChannelState.READY)
    setting.poll()
    reason = "the connection was lost before the first answer (check security.protocol)"
    assert caplog.messages == [f"Cannot connect to broker a:9092 (id: 0): {reason}. Trying again."]


def test_a_ready_connection_that_is_lost_is_no_failed_attempt(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    setting.make_ready()
    setting.selector.disconnect("0", ChannelState.READY)
    setting.poll()
    assert not caplog.messages
