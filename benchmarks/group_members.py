"""Members of consumer groups as raw connections: they join once, then heartbeat or commit as fast or slow as they are
told. Used by `benchmarks.group_load`; also a load of its own, which prints one line of JSON (`load_generator.Load`):

    python -m benchmarks.group_members heartbeat --port 9092 --groups 100 --rate 100
    python -m benchmarks.group_members commit --port 9092 --groups 10 --in-flight 4

One thread, one connection a member, requests encoded once: JoinGroup v3 and SyncGroup v2 to begin with, then Heartbeat
v4 and OffsetCommit v8, which Apache Kafka 3.9, Apache Kafka 4 and ours all speak. An answer must be, byte for byte, the
first one of its kind, which is looked at closely.
"""

from __future__ import annotations

import argparse
import json
import resource
import select
import time
from collections.abc import Sequence
from dataclasses import asdict

from barnabas.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import decode_response_header, encode_request_header, response_header_version
from barnabas.protocol.message_index import response_class
from barnabas.protocol.messages.classic_groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.offsets import OffsetCommitRequest
from barnabas.protocol.topic_partition import TopicPartition
from benchmarks.load_generator import Latencies, Load, load_summary, wait_for_start
from benchmarks.wire_requests import BadAnswer, Connection

DESCRIPTORS = 20_000
TOPIC = "committed"
PARTITIONS = 10
CLIENT_ID = "group-member"
JOIN, SYNC, HEARTBEAT, COMMIT, LEAVE, FIND, CONSUMER_HEARTBEAT = 3, 2, 4, 8, 3, 3, 1
"""Versions."""
SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS = 600_000, 60_000
TICK_SECONDS = 0.005
RECEIVE_BYTES = 1 << 16
COORDINATOR_WAIT_SECONDS = 60
NOT_YET = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def frame(body: Message, version: int) -> bytes:
    """A request with its size prefix; all have the same correlation id."""
    head = encode_request_header(body.api_key, version, 1, CLIENT_ID)
    request = head + b"".join(map(bytes, body.encode(version)))
    return len(request).to_bytes(4, "big") + request


def call(connection: Connection, body: Message, version: int) -> Message:
    """Ask and wait."""
    return decoded(connection.call(frame(body, version)), body, version)


def decoded(answer: memoryview | bytes, body: Message, version: int) -> Message:
    """The answer to `body`, without its size prefix."""
    _, offset = decode_response_header(bytes(answer), response_header_version(body.api_key, version))
    message, _ = response_class(body.api_key).decode(bytes(answer), version, offset)
    return message


class Member:
    """A member of a group, once it has joined."""

    __slots__ = ("commit", "connection", "group_id", "heartbeat", "member_id", "pending")

    def __init__(self, connection: Connection, group_id: str) -> None:
        self.connection = connection
        self.group_id = group_id
        self.member_id = ""
        self.heartbeat = b""
        self.commit = b""
        self.pending = b""

    def joined(self, generation: int, member_id: str, partitions: int) -> None:
        """Make its requests."""
        self.member_id = member_id
        self.heartbeat = frame(HeartbeatRequest(self.group_id, generation, member_id), HEARTBEAT)
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(
            name=TOPIC,
            partitions=[
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=1_000_000 + partition, committed_metadata=""
                )
                for partition in range(partitions)
            ],
        )
        body = OffsetCommitRequest(
            group_id=self.group_id, generation_id_or_member_epoch=generation, member_id=member_id, topics=[topic]
        )
        self.commit = frame(body, COMMIT)


class Members:
    """All of them, and the loops that keep them busy."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self.all: list[Member] = []

    def join(self, groups: int, members: int, partitions: int = PARTITIONS, prefix: str = "group") -> None:
        """Connect, make the topic, and join: every group gets all its members in one generation."""
        first = Connection(self._host, self._port)
        first.create_topic(TOPIC, PARTITIONS)
        await_coordinator(first, prefix)
        first.close()
        for number in range(groups):
            for _ in range(members):
                self.all.append(Member(Connection(self._host, self._port), f"{prefix}-{number:05}"))
        metadata = encode_subscription(Subscription((TOPIC,)))
        joins = [_join(member.group_id, metadata) for member in self.all]
        for member, body in zip(self.all, joins, strict=True):
            member.connection.socket.sendall(frame(body, JOIN))
        answers = []
        for member, body in zip(self.all, joins, strict=True):
            answer = decoded(member.connection.read_answer(), body, JOIN)
            assert isinstance(answer, JoinGroupResponse)
            if answer.error_code or (answer.member_id == answer.leader and len(answer.members) != members):
                raise BadAnswer(f"{member.group_id}: error {answer.error_code}, {len(answer.members)} members at once")
            member.joined(answer.generation_id, answer.member_id, partitions)
            answers.append(answer)
        self._sync(answers)

    def _sync(self, answers: Sequence[JoinGroupResponse]) -> None:
        nothing = encode_assignment(Assignment((TopicPartition(TOPIC, 0),)))
        bodies = []
        for member, answer in zip(self.all, answers, strict=True):
            body = SyncGroupRequest(
                group_id=member.group_id, generation_id=answer.generation_id, member_id=member.member_id
            )
            body.assignments = [
                SyncGroupRequest.SyncGroupRequestAssignment(each.member_id, nothing) for each in answer.members
            ]
            bodies.append(body)
            member.connection.socket.sendall(frame(body, SYNC))
        for member, body in zip(self.all, bodies, strict=True):
            error = getattr(decoded(member.connection.read_answer(), body, SYNC), "error_code", 0)
            if error:
                raise BadAnswer(f"sync of {member.group_id}: error {error}")

    def leave(self) -> None:
        """Leave the groups and close the connections."""
        for member in self.all:
            body = LeaveGroupRequest(
                group_id=member.group_id, members=[LeaveGroupRequest.MemberIdentity(member.member_id)]
            )
            member.connection.socket.sendall(frame(body, LEAVE))
        for member in self.all:
            member.connection.read_answer()
            member.connection.close()
        self.all.clear()

    def run(self, kind: str, seconds: float, *, in_flight: int = 32, rate: float = 0) -> Load:
        """Let the members, in turn, send `kind` (heartbeat, commit): `rate` a second, or as many as are answered with
        `in_flight` on their way."""
        frames = [getattr(member, kind) for member in self.all]
        expected = _expected_answer(self.all[0], frames[0], kind)
        loop = _Loop(self.all, frames, expected)
        started, cpu = time.perf_counter(), time.process_time()
        loop.run(seconds, in_flight, rate)
        elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
        return load_summary(loop.latencies, 0, len(loop.latencies.seconds) * len(frames[0]), elapsed, cpu)


def quiet_consumer_heartbeat(connection: Connection, group_id: str) -> bytes:
    """Join a group of KIP-848 as its one member, and return the heartbeat of a member without news."""
    connection.create_topic(TOPIC, PARTITIONS)
    await_coordinator(connection, group_id)
    body = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="member",
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )
    answer = call(connection, body, CONSUMER_HEARTBEAT)
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    if answer.error_code:
        raise BadAnswer(f"heartbeat of {group_id}: error {answer.error_code}")
    quiet = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=body.member_id, member_epoch=answer.member_epoch)
    return frame(quiet, CONSUMER_HEARTBEAT)


def _join(group_id: str, metadata: bytes) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol("range", metadata)],
    )


def await_coordinator(connection: Connection, group_id: str) -> None:
    """Have `__consumer_offsets` made, if it is not there, and wait until the coordinator has begun."""
    deadline = time.monotonic() + COORDINATOR_WAIT_SECONDS
    while True:
        found = getattr(call(connection, FindCoordinatorRequest(key=group_id), FIND), "error_code", 0)
        if not found:
            heartbeat = call(connection, HeartbeatRequest(group_id, 1, "nobody"), HEARTBEAT)
            if getattr(heartbeat, "error_code", 0) not in NOT_YET:
                return
        if time.monotonic() > deadline:
            raise BadAnswer(f"no coordinator of {group_id}: error {found}")
        time.sleep(0.05)


def _expected_answer(member: Member, request: bytes, kind: str) -> bytes:
    """What every answer will be, if the first says that all is well."""
    member.connection.socket.sendall(request)
    answer = bytes(member.connection.read_answer())
    if kind == "heartbeat":
        errors = {getattr(decoded(answer, HeartbeatRequest(), HEARTBEAT), "error_code", 0)}
    else:
        topics = getattr(decoded(answer, OffsetCommitRequest(), COMMIT), "topics", [])
        errors = {partition.error_code for topic in topics for partition in topic.partitions}
    if errors != {0}:
        raise BadAnswer(f"{kind}: errors {errors}")
    return len(answer).to_bytes(4, "big") + answer


class _Loop:
    """One run of all members."""

    def __init__(self, members: Sequence[Member], frames: Sequence[bytes], expected: bytes) -> None:
        self._expected = expected
        self._members = members
        self._frames = frames
        self._next = 0
        self._sent_at: dict[int, float] = {}
        self._by_number = {member.connection.socket.fileno(): member for member in members}
        self._poller = select.epoll()
        for number in self._by_number:
            self._poller.register(number, select.EPOLLIN)
        self.latencies = Latencies()

    def run(self, seconds: float, in_flight: int, rate: float) -> None:
        """Send and receive; whatever is on its way at the end is waited for."""
        clock = time.perf_counter
        started = clock()
        end = started + seconds
        sent = 0
        if not rate:
            for _ in range(min(in_flight, len(self._members))):
                self._send(clock())
        while (now := clock()) < end:
            if rate:
                due = int((now - started) * rate)
                for _ in range(min(due - sent, len(self._members) - len(self._sent_at))):
                    self._send(now)
                    sent += 1
                self._receive(TICK_SECONDS)
            else:
                for _ in range(self._receive(1)):
                    self._send(clock())
        while self._sent_at:
            self._receive(1)
        self._poller.close()

    def _send(self, now: float) -> None:
        while True:
            index = self._next
            self._next = (index + 1) % len(self._members)
            socket = self._members[index].connection.socket
            if socket.fileno() not in self._sent_at:
                break
        self._sent_at[socket.fileno()] = now
        socket.sendall(self._frames[index])

    def _receive(self, timeout_seconds: float) -> int:
        """Take the answers that are there; how many."""
        expected, done = self._expected, self.latencies.seconds
        count = 0
        for number, _ in self._poller.poll(timeout_seconds):
            member = self._by_number[number]
            data = member.pending + member.connection.socket.recv(RECEIVE_BYTES)
            if len(data) < len(expected) and data and expected.startswith(data[:4]):
                member.pending = data
                continue
            if data != expected:
                raise BadAnswer(f"{member.group_id}: {data.hex()}, expected {expected.hex()}")
            member.pending = b""
            done.append(time.perf_counter() - self._sent_at.pop(number))
            count += 1
        return count


def raise_descriptor_limit() -> None:
    """Thousands of members are as many connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, most), most))


def main() -> None:
    """Join, run, leave, and print a `Load` as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=["heartbeat", "commit"])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--prefix", default="group")
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0, help="requests a second; 0: as many as are answered")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="in a commit")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--wait", action="store_true", help="print `ready` and wait for a line before starting")
    options = parser.parse_args()
    raise_descriptor_limit()
    members = Members(options.host, options.port)
    members.join(options.groups, options.members, options.partitions, prefix=options.prefix)
    wait_for_start(options)
    load = members.run(options.kind, options.seconds, in_flight=options.in_flight, rate=options.rate)
    members.leave()
    print(json.dumps(asdict(load)), flush=True)


if __name__ == "__main__":
    main()
