"""Faults over real sockets: what each action does to each kind of request, in both dispatch modes.

One network thread and one handler thread: an action that blocked either would stop every other client.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.message_index import request_class, response_class
from barnabas.protocol.messages.classic_groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
)
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.testing import (
    BlackHole,
    BrokerFailed,
    BrokerProcess,
    Delay,
    Drop,
    Error,
    Every,
    Kill,
    Nth,
    broker,
)
from tests.support.raw_client import PRODUCE_BY_TOPIC_ID, RawClient, make_batch
from tests.support.raw_group_member import await_coordinator
from tests.support.server_fixtures import AGAINST_KAFKA

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="faults are ours")

TOPIC = "orders"
DAY_MS = 24 * 60 * 60 * 1000
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture(scope="module", params=["inline", "queue"])
def shared(request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    with broker(
        faults=True,
        num_network_threads=1,
        num_io_threads=1,
        offsets_topic_num_partitions=1,
        inline_requests_enable=request.param == "inline",
    ) as running:
        yield running


@pytest.fixture
def b(shared: BrokerProcess) -> Iterator[BrokerProcess]:
    """The shared broker, running and without faults; afterwards too."""
    if not shared.is_running:
        shared.start()
    yield shared
    shared.faults.clear()


@pytest.fixture
def client(b: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(b) as connected:
        if connected.metadata(TOPIC).error_code:
            connected.create_topic(TOPIC)
        yield connected


@pytest.fixture
def other(b: BrokerProcess) -> Iterator[RawClient]:
    """A second client, which no fault is meant for."""
    with RawClient(b, client_id="other") as connected:
        yield connected


# -- error


@pytest.mark.parametrize(("when", "appended"), [("before", 0), ("after", 1)])
def test_error_of_a_produce(b: BrokerProcess, client: RawClient, when: str, appended: int) -> None:
    fault = b.faults.add(Error(NOT_LEADER, when), api="Produce", calls=Every(2))  # type: ignore[arg-type]
    start = client.end_offset(TOPIC)
    codes = [client.produce(TOPIC, make_batch([b"x"]), acks=acks).error_code for acks in (1, 1, -1, -1)]
    assert codes == [0, NOT_LEADER, 0, NOT_LEADER]
    assert client.end_offset(TOPIC) - start == 2 + 2 * appended
    assert (fault.hits, fault.calls) == (2, 4)


def test_error_of_a_produce_without_acks_closes_the_connection(b: BrokerProcess, client: RawClient) -> None:
    start = client.end_offset(TOPIC)
    with b.faults.add(Error(NOT_LEADER), api="Produce") as fault, RawClient(b) as hit:
        hit.send(hit.produce_request(TOPIC, make_batch([b"x"]), 9, acks=0), 9)
        assert hit.is_closed_by_broker()
        assert fault.hits == 1
    assert client.end_offset(TOPIC) == start


@pytest.mark.parametrize("version", [6, 12])
def test_error_of_a_fetch(b: BrokerProcess, client: RawClient, version: int) -> None:
    b.faults.add(Error(NOT_LEADER), api="Fetch")
    answer = client.call(client.fetch_request(TOPIC, 0, version), version, FetchResponse)
    assert answer.error_code == (NOT_LEADER if version >= 7 else 0)
    assert [each.error_code for topic in answer.responses for each in topic.partitions] == [NOT_LEADER]


def test_error_of_other_apis(b: BrokerProcess, client: RawClient) -> None:
    b.faults.add(Error("COORDINATOR_NOT_AVAILABLE"))
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.call(HeartbeatRequest("group"), 4, HeartbeatResponse).error_code == code
    assert client.metadata(TOPIC).error_code == code
    place = OffsetCommitRequest.OffsetCommitRequestPartition(0, 5)
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(TOPIC, partitions=[place])]
    answer = client.call(OffsetCommitRequest("group", topics=topics), 8, OffsetCommitResponse)
    assert [each.error_code for topic in answer.topics for each in topic.partitions] == [code]


def test_every_api_answers_with_an_error_in_its_newest_version(b: BrokerProcess, client: RawClient) -> None:
    versions = {ApiKey(key): last for key, (_, last) in client.supported_versions().items()}
    fault = b.faults.add(Error("REQUEST_TIMED_OUT"))
    for key, version in versions.items():
        request = ProduceRequest(acks=1) if key is ApiKey.PRODUCE else request_class(key)()
        client.call(request, version, response_class(key))
    assert fault.hits == fault.calls == len(versions) > 40


# -- drop


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize(("when", "appended"), [("before", 0), ("after", 1)])
def test_drop_of_a_produce(
    b: BrokerProcess, client: RawClient, other: RawClient, acks: int, when: str, appended: int
) -> None:
    start = other.end_offset(TOPIC)
    fault = b.faults.add(Drop(when), api="Produce", calls=Nth(1))  # type: ignore[arg-type]
    client.send(client.produce_request(TOPIC, make_batch([b"x"]), 9, acks), 9)
    assert client.is_closed_by_broker()
    assert fault.hits == 1
    assert other.end_offset(TOPIC) - start == appended


def test_answers_to_earlier_requests_still_leave(b: BrokerProcess, client: RawClient) -> None:
    b.faults.add(Drop(), api="Heartbeat")
    metadata = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    client.socket.sendall(client.encode(metadata, 9, 77) + client.encode(HeartbeatRequest("group"), 4, 78))
    assert client.receive(MetadataResponse, 9, 77).topics[0].error_code == 0
    assert client.is_closed_by_broker()


def test_drop_of_a_fetch_that_waits_for_records(b: BrokerProcess, client: RawClient, other: RawClient) -> None:
    fault = b.faults.add(Drop("after"), api="Fetch", calls=Nth(1))
    end = client.end_offset(TOPIC)
    client.send(client.fetch_request(TOPIC, end, max_wait_ms=DAY_MS), 12)
    fault.wait_for_hits()
    other.metadata(TOPIC)
    assert client.is_silent()
    other.produce_values(TOPIC, b"x")
    assert client.is_closed_by_broker()


def test_error_of_a_fetch_that_waits_for_records(b: BrokerProcess, client: RawClient, other: RawClient) -> None:
    fault = b.faults.add(Error(NOT_LEADER, "after"), api="Fetch", calls=Nth(1))
    number = client.send(client.fetch_request(TOPIC, client.end_offset(TOPIC), max_wait_ms=DAY_MS), 12)
    fault.wait_for_hits()
    other.produce_values(TOPIC, b"x")
    assert client.receive(FetchResponse, 12, number).error_code == NOT_LEADER


def test_error_of_a_join_that_waits_for_the_other_member(b: BrokerProcess, client: RawClient, other: RawClient) -> None:
    group = f"group-{time.monotonic_ns()}"
    await_coordinator(client, group)
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"")]

    def join(member_id: str = "") -> JoinGroupRequest:
        return JoinGroupRequest(group, DAY_MS // 100, DAY_MS // 100, member_id, None, "consumer", protocols)

    member = other.call(join(), 3, JoinGroupResponse).member_id
    fault = b.faults.add(Error("UNKNOWN_MEMBER_ID", "after"), api="JoinGroup", client_id="raw-client")
    number = client.send(join(), 3)
    fault.wait_for_hits()
    assert client.is_silent()
    assert len(other.call(join(member), 3, JoinGroupResponse).members) == 2
    assert client.receive(JoinGroupResponse, 3, number).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# -- delay and black hole


@pytest.mark.parametrize("when", ["before", "after"])
def test_delay(b: BrokerProcess, client: RawClient, when: str) -> None:
    b.faults.add(Delay(60, when), api="Heartbeat", calls=Nth(1))  # type: ignore[arg-type]
    began = time.monotonic()
    client.call(HeartbeatRequest("group"), 4, HeartbeatResponse)
    # The timer counts whole milliseconds: a delay that begins within one ends up to a millisecond early.
    assert time.monotonic() - began >= 0.059


@pytest.mark.parametrize(("when", "appended"), [("before", 0), ("after", 1)])
@pytest.mark.parametrize("action", [Delay, BlackHole])
def test_a_request_that_is_held_back_stops_no_other_client(
    b: BrokerProcess, client: RawClient, other: RawClient, action: type[Delay | BlackHole], when: str, appended: int
) -> None:
    start = other.end_offset(TOPIC)
    held = Delay(DAY_MS, when) if action is Delay else BlackHole(when)  # type: ignore[arg-type]
    fault = b.faults.add(held, api="Produce", calls=Nth(1))
    request = client.produce_request(TOPIC, make_batch([b"x"]), 9, -1)
    client.socket.sendall(client.encode(request, 9, 5) + client.encode(HeartbeatRequest("group"), 4, 6))
    fault.wait_for_hits()
    assert other.end_offset(TOPIC) - start == appended
    other.produce_values(TOPIC, b"y")
    assert client.is_silent()
    assert fault.calls == 2


def test_a_large_frame_survives_its_delay(b: BrokerProcess, client: RawClient, other: RawClient) -> None:
    """Its buffer is one of those that are used again."""
    value = bytes(range(256)) * 1000
    fault = b.faults.add(Delay(30), api="Produce", client_id="raw-client")
    number = client.send(client.produce_request(TOPIC, make_batch([value]), 9, -1), 9)
    fault.wait_for_hits()
    for _ in range(5):
        other.produce_values(TOPIC, b"z" * len(value))
    (answered,) = client.receive(ProduceResponse, 9, number).responses
    assert [each.error_code for each in answered.partition_responses] == [0]


def test_a_stop_waits_for_no_request_that_is_held_back(b: BrokerProcess, client: RawClient, other: RawClient) -> None:
    fault = b.faults.add(BlackHole(), api="Heartbeat")
    delayed = b.faults.add(Delay(DAY_MS, "after"), api="Metadata", client_id="other")
    client.send(HeartbeatRequest("group"), 4)
    other.send(MetadataRequest(None), 9)
    fault.wait_for_hits()
    delayed.wait_for_hits()
    seen = len(b.log_text())
    assert b.terminate() == 0
    assert client.is_closed_by_broker()
    assert other.is_closed_by_broker()
    assert "were not answered within" not in b.log_text()[seen:]


# -- kill


@pytest.mark.parametrize(("when", "appended"), [("before", 0), ("after", 1)])
def test_kill_and_start_again(b: BrokerProcess, client: RawClient, when: str, appended: int) -> None:
    start = client.end_offset(TOPIC)
    fault = b.faults.add(Kill(when), api="Produce", calls=Nth(2))  # type: ignore[arg-type]
    client.produce_values(TOPIC, b"1")
    client.send(client.produce_request(TOPIC, make_batch([b"2"]), 9, -1), 9)
    fault.wait_for_hits()
    assert client.is_closed_by_broker()
    b.start()
    with RawClient(b) as again:
        again.wait_for_leaders(TOPIC, 1)
        assert again.end_offset(TOPIC) - start == 1 + appended
        again.produce_values(TOPIC, b"3")
    assert (fault.hits, fault.calls) == (1, 3)


def test_a_broker_that_a_fault_has_killed_has_not_failed() -> None:
    with broker(faults=True) as killed, RawClient(killed) as client:
        fault = killed.faults.add(Kill(), api="ApiVersions")
        client.send(request_class(ApiKey.API_VERSIONS)(), 0)
        assert client.is_closed_by_broker()
        fault.wait_for_hits()
        assert not killed.is_running
        assert (fault.hits, fault.calls) == (1, 1)


# -- matching


def test_by_topic_name_and_id(b: BrokerProcess, client: RawClient) -> None:
    if client.metadata("shipments").error_code:
        client.create_topic("shipments")
    b.faults.add(Error(NOT_LEADER), api=["Produce", "Fetch"], topic="shipments")
    for version in (9, PRODUCE_BY_TOPIC_ID):
        assert client.produce(TOPIC, make_batch([b"x"]), version).error_code == 0
        assert client.produce("shipments", make_batch([b"x"]), version).error_code == NOT_LEADER
    assert client.fetch(TOPIC, 0, 13).error_code == 0
    answer = client.call(client.fetch_request("shipments", 0, 13), 13, FetchResponse)
    assert answer.error_code == NOT_LEADER


def test_faults_for_all_requests_leave_the_broker_to_its_work(b: BrokerProcess, client: RawClient) -> None:
    """Its controller speaks to it over the network too, at the start above all."""
    fault = b.faults.add(Error("REQUEST_TIMED_OUT"))
    b.restart()
    with RawClient(b) as again:
        assert again.metadata(TOPIC).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert fault.hits == 1
        fault.remove()
        again.wait_for_leaders(TOPIC, 1)


def test_a_removed_fault_hits_no_more(b: BrokerProcess, client: RawClient) -> None:
    with b.faults.add(Error(NOT_LEADER), api="Produce") as fault:
        assert client.produce(TOPIC, make_batch([b"x"])).error_code == NOT_LEADER
    assert client.produce(TOPIC, make_batch([b"x"])).error_code == 0
    assert (fault.hits, list(b.faults)) == (1, [])


def test_an_api_that_the_broker_does_not_serve(b: BrokerProcess, client: RawClient) -> None:
    assert ApiKey.SHARE_FETCH not in client.supported_versions()
    with pytest.raises(ValueError, match="this broker does not serve SHARE_FETCH"):
        b.faults.add(Drop(), api=ApiKey.SHARE_FETCH)


def test_a_paused_broker_installs_a_fault_when_it_goes_on(
    b: BrokerProcess, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.testing.faults.ANSWER_SECONDS", 0.05)
    b.pause()
    try:
        with pytest.raises(TimeoutError, match="the broker did not answer a command about faults"):
            b.faults.add(Error(NOT_LEADER), api="Produce")
    finally:
        b.resume()
    monkeypatch.undo()
    (fault,) = b.faults
    assert fault.hits == 0
    assert client.produce(TOPIC, make_batch([b"x"])).error_code == NOT_LEADER
    assert fault.hits == 1


# -- reach


def test_any_number_of_threads_may_use_the_faults(b: BrokerProcess, client: RawClient) -> None:
    def add_and_remove() -> None:
        for _ in range(20):
            b.faults.add(Delay(1), api="Heartbeat").remove()

    threads = [threading.Thread(target=add_and_remove) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        client.call(HeartbeatRequest("group"), 4, HeartbeatResponse)
    for thread in threads:
        thread.join()
    assert list(b.faults) == []


@pytest.mark.parametrize("pipes", ["0:1", "98:99", "x"])
def test_a_broker_takes_faults_from_inherited_pipes_only(pipes: str, tmp_path: str) -> None:
    command = [sys.executable, "-m", "barnabas", "serve", "--data-dir", f"{tmp_path}/data", "--fault-pipes", pipes]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "--fault-pipes: " in ended.stderr


def test_a_broker_without_faults_loads_nothing_of_them(tmp_path: str) -> None:
    program = f"""
import sys
from barnabas.broker.broker_server import BrokerServer
from barnabas.config.kafka_config import KafkaConfig
server = BrokerServer(KafkaConfig.parse({{"log.dirs": "{tmp_path}/data", "listeners": "PLAINTEXT://127.0.0.1:0"}}))
server.startup()
print(server.state.name, *[name for name in sys.modules if name.startswith("barnabas.faults")])
server.shutdown()
"""
    assert subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60).split() == ["RUNNING"]


def test_a_broker_that_was_started_without_faults_takes_none() -> None:
    with broker() as plain, pytest.raises(BrokerFailed, match="this broker takes no faults"):
        _ = plain.faults
