"""A coordinator in a ScriptedCluster, with one member: no sockets, no threads. Errors are scripted by API.

The consumer's channel to its coordinator is stepped by the consumer's own polls, on the same mock clock.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.group.coordinator_channel import ChannelUser, CoordinatorChannel
from barnabas.clients.metadata.cluster_metadata import MetadataConfig
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.classic_groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.runtime.clock import Clock
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.scripted_selector import ScriptedSelector, SentRequest

MESSAGES = (
    FindCoordinatorRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
STEP_MS = 20


class SteppingClient(BlockingClient):
    """Steps the channel with each of its polls, and lets little time pass in one."""

    channel: CoordinatorChannel | None = None

    def poll(self, timeout_ms: float) -> None:
        if self.channel is not None and not self.check_usable():
            for _ in range(4):
                self.channel.run_once()
        super().poll(min(timeout_ms, STEP_MS))


class ScriptedGroup:
    """See the module's text. `answers` False: JoinGroup waits in `joins`."""

    def __init__(self, topics: dict[str, Any], brokers: int = 1, cluster: ScriptedCluster | None = None) -> None:
        self.cluster = ScriptedCluster(topics, brokers, MESSAGES) if cluster is None else cluster
        self.group_errors: dict[ApiKey, list[ErrorCode]] = defaultdict(list)
        """Errors that the next requests meet, NONE for success; MEMBER_ID_REQUIRED comes by itself."""
        self.coordinator = 0
        self.generation = 0
        self.member_id = "member-1"
        self.committed: dict[tuple[str, int], tuple[int, int, str | None]] = {}
        self.silent: set[ApiKey] = set()
        """APIs that are not answered."""
        handlers = {
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.JOIN_GROUP: self._join,
            ApiKey.SYNC_GROUP: self._sync,
            ApiKey.HEARTBEAT: lambda request: HeartbeatResponse(error_code=self._error(ApiKey.HEARTBEAT)),
            ApiKey.LEAVE_GROUP: lambda request: LeaveGroupResponse(error_code=self._error(ApiKey.LEAVE_GROUP)),
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.OFFSET_FETCH: self._fetch,
        }
        for api_key, handler in handlers.items():
            self.cluster.handlers[api_key] = lambda request, api_key=api_key, handler=handler: (
                None if api_key in self.silent else handler(request)
            )
        self.group_selector = ScriptedSelector(self.cluster.clock)
        self.group_selector.responder = self.cluster.selector.responder

    def consumer(self, bootstrap_servers: str = "127.0.0.1:9092", **settings: Any) -> Consumer:
        """A consumer of the group "g", that subscribes to nothing yet."""
        selectors = iter((self.cluster.selector, self.group_selector))

        def make_selector(clock: Clock, *, max_idle_ms: float) -> ScriptedSelector:
            return next(selectors)

        client = SteppingClient(
            bootstrap_servers,
            NetworkClientConfig(),
            MetadataConfig(),
            clock=self.cluster.clock,
            make_selector=make_selector,
            resolve=lambda host, port: (host,),
        )
        defaults = {"group_id": "g", "auto_offset_reset": "earliest", "partition_assignment_strategy": ["range"]}
        consumer = Consumer("", client=client, **{**defaults, **settings})
        assert consumer._coordinator is not None
        channel = client.channel = consumer._coordinator.channel

        def start(user: ChannelUser) -> None:
            channel._user = user

        channel.start = start  # type: ignore[method-assign]
        return consumer

    def sent(self, api_key: ApiKey) -> list[SentRequest]:
        return self.cluster.sent(api_key)

    # -- answers

    def _error(self, api_key: ApiKey) -> int:
        errors = self.group_errors[api_key]
        return int(errors.pop(0)) if errors else 0

    def _find(self, request: SentRequest) -> FindCoordinatorResponse:
        error = self._error(ApiKey.FIND_COORDINATOR)
        if request.header.api_version < 4:
            return FindCoordinatorResponse(error_code=error, node_id=self.coordinator, host="127.0.0.1", port=9092)
        coordinator = FindCoordinatorResponse.Coordinator("g", self.coordinator, "127.0.0.1", 9092, error, None)
        return FindCoordinatorResponse(coordinators=[coordinator])

    def _join(self, request: SentRequest) -> JoinGroupResponse:
        body = request.body
        error = self._error(ApiKey.JOIN_GROUP)
        if not error and not body.member_id and not body.group_instance_id:
            return JoinGroupResponse(error_code=int(ErrorCode.MEMBER_ID_REQUIRED), member_id=self.member_id)
        if error:
            return JoinGroupResponse(error_code=error)
        self.generation += 1
        me = JoinGroupResponse.JoinGroupResponseMember(
            self.member_id, body.group_instance_id, body.protocols[0].metadata
        )
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=body.protocols[0].name,
            leader=self.member_id,
            member_id=self.member_id,
            members=[me],
        )

    def _sync(self, request: SentRequest) -> SyncGroupResponse:
        error = self._error(ApiKey.SYNC_GROUP)
        if error:
            return SyncGroupResponse(error_code=error)
        (assignment,) = request.body.assignments
        return SyncGroupResponse(
            protocol_type="consumer",
            protocol_name=request.body.protocol_name,
            assignment=assignment.assignment,
        )

    def _commit(self, request: SentRequest) -> OffsetCommitResponse:
        topics = []
        error = self._error(ApiKey.OFFSET_COMMIT)
        for topic in request.body.topics:
            partitions = []
            for each in topic.partitions:
                if not error:
                    self.committed[topic.name, each.partition_index] = (
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.committed_metadata,
                    )
                partitions.append(OffsetCommitResponse.OffsetCommitResponsePartition(each.partition_index, error))
            topics.append(OffsetCommitResponse.OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return OffsetCommitResponse(topics=topics)

    def _fetch(self, request: SentRequest) -> OffsetFetchResponse:
        error = self._error(ApiKey.OFFSET_FETCH)
        (group,) = request.body.groups
        topics = []
        for topic in group.topics:
            partitions = []
            for index in topic.partition_indexes:
                offset, epoch, metadata = self.committed.get((topic.name, index), (-1, -1, ""))
                partitions.append(OffsetFetchResponse.OffsetFetchResponsePartitions(index, offset, epoch, metadata, 0))
            topics.append(OffsetFetchResponse.OffsetFetchResponseTopics(name=topic.name, partitions=partitions))
        answer = OffsetFetchResponse.OffsetFetchResponseGroup("g", topics, error)
        return OffsetFetchResponse(groups=[answer])
