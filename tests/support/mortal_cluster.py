"""A cluster of scripted brokers that die: each API is answered by the broker whose office it is, and by no other.

No sockets, one mock clock. A dead broker refuses connections at once; for `EXPIRY_MS` the others go on naming it, as a
cluster does until the session of the dead broker has expired. Then the metadata are without it, and a survivor has its
offices. Requests at a broker without the office get the error that Kafka has for that.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.error_answers import error_answer
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.message_index import MESSAGES, request_class
from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
from barnabas.protocol.messages.group_admin import DeleteGroupsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.offsets import OffsetFetchResponse
from barnabas.protocol.messages.quotas import AlterUserScramCredentialsResponse
from barnabas.protocol.messages.topics import CreatePartitionsResponse
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnResponse,
    DescribeTransactionsResponse,
    InitProducerIdResponse,
)
from tests.support.client_metadata import metadata_response
from tests.support.mock_clock import MockClock
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.scripted_selector import ScriptedSelector, SentRequest, all_versions

BROKERS = 4
FIRST_PORT = 9092
BOOTSTRAP = ",".join(f"127.0.0.1:{FIRST_PORT + broker}" for broker in range(BROKERS))
EXPIRY_MS = 5_000
"""Shorter than a session of ZooKeeper (18 s): a simulated second costs real time too."""
_STEP_MS = 100


class Office(Enum):
    """What a broker does for a client."""

    BOOTSTRAP = "bootstrap"
    LEADER = "leader"
    COORDINATOR = "coordinator"
    CONTROLLER = "controller"


OFFICE_OF = {
    **dict.fromkeys(
        (
            ApiKey.PRODUCE,
            ApiKey.FETCH,
            ApiKey.LIST_OFFSETS,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            ApiKey.DELETE_RECORDS,
            ApiKey.DESCRIBE_PRODUCERS,
            ApiKey.WRITE_TXN_MARKERS,
        ),
        Office.LEADER,
    ),
    **dict.fromkeys(
        (
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.HEARTBEAT,
            ApiKey.LEAVE_GROUP,
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.OFFSET_DELETE,
            ApiKey.DESCRIBE_GROUPS,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ApiKey.DELETE_GROUPS,
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.END_TXN,
            ApiKey.DESCRIBE_TRANSACTIONS,
        ),
        Office.COORDINATOR,
    ),
    **dict.fromkeys(
        (
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.CREATE_PARTITIONS,
            ApiKey.ELECT_LEADERS,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ApiKey.UPDATE_FEATURES,
            ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ),
        Office.CONTROLLER,
    ),
}
"""Whom a client has to ask; an API that is missing here may be asked of any broker."""

_VERSIONS = all_versions(*map(request_class, MESSAGES))
_REFUSAL_OF = {
    Office.LEADER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Office.COORDINATOR: ErrorCode.NOT_COORDINATOR,
    Office.CONTROLLER: ErrorCode.NOT_CONTROLLER,
}
_ANSWERS: dict[int, Callable[[Any, int], Message]] = {
    ApiKey.CREATE_PARTITIONS: lambda body, error: CreatePartitionsResponse(
        results=[CreatePartitionsResponse.CreatePartitionsTopicResult(each.name, error) for each in body.topics]
    ),
    ApiKey.DELETE_GROUPS: lambda body, error: DeleteGroupsResponse(
        results=[DeleteGroupsResponse.DeletableGroupResult(each, error) for each in body.groups_names]
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda body, error: DescribeTransactionsResponse(
        transaction_states=[
            DescribeTransactionsResponse.TransactionState(error, each) for each in body.transactional_ids
        ]
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda body, error: AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(each.name, error, None)
            for each in (*body.deletions, *body.upsertions)
        ]
    ),
    ApiKey.OFFSET_FETCH: lambda body, error: OffsetFetchResponse(
        error_code=error,
        groups=[OffsetFetchResponse.OffsetFetchResponseGroup(each.group_id, [], error) for each in body.groups],
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda body, error: AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
                topic.name,
                [
                    AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(index, error)
                    for index in topic.partitions
                ],
            )
            for topic in body.v3_and_below_topics
        ]
    ),
    ApiKey.INIT_PRODUCER_ID: lambda body, error: InitProducerIdResponse(
        error_code=error, producer_id=-1 if error else 7, producer_epoch=-1 if error else 0
    ),
}
"""The answers that `error_answer` leaves without the items that are asked for."""

_ANSWERED_AT_DEATH = {ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR}


class MortalSelector(ScriptedSelector):
    """Refuses connections to dead brokers; polls of an idle network let a little time pass."""

    def __init__(self, clock: MockClock, dead: set[int]) -> None:
        super().__init__(clock)
        self.passes_time = True
        self._dead = dead
        self._broker_of: dict[str, int] = {}

    def broker(self, connection_id: str) -> int:
        """The broker at the other end."""
        return self._broker_of[connection_id]

    def connect(self, connection_id: str, address: tuple[str, int], *options: Any, **more: Any) -> None:
        """See ScriptedSelector. Raises OSError for a dead broker."""
        self._broker_of[connection_id] = address[1] - FIRST_PORT
        if address[1] - FIRST_PORT in self._dead:
            raise ConnectionRefusedError(111, "Connection refused")
        super().connect(connection_id, address, *options, **more)

    def poll(self, timeout_ms: float) -> None:
        """See ScriptedSelector."""
        super().poll(min(timeout_ms, _STEP_MS))

    def lose(self, broker: int) -> None:
        """Lose the connections to a broker."""
        for connection_id in self.channels:
            if self._broker_of[connection_id] == broker:
                self.disconnect(connection_id)


class MortalCluster(ScriptedCluster):
    """Brokers 0 to 3, each with one of the offices, or the last with all of them (`is_one_for_all`)."""

    def __init__(self, *, is_one_for_all: bool = False) -> None:
        super().__init__({"t": [0, 0]}, BROKERS)
        self.holders = {
            office: BROKERS - 1 if is_one_for_all and office is not Office.BOOTSTRAP else number
            for number, office in enumerate(Office)
        }
        self.dead: set[int] = set()
        self.victim: int | None = None
        """The broker that dies of the next request that is not about versions or metadata."""
        self._died_ms = 0
        self.selectors: list[MortalSelector] = []
        self.handlers[ApiKey.API_VERSIONS] = lambda request: _VERSIONS
        self.handlers[ApiKey.FIND_COORDINATOR] = self.find_coordinator
        self.selector = self.new_selector()
        self._appoint()

    def new_selector(self) -> MortalSelector:
        """Connections for one more client, or for a further thread of a client."""
        selector = MortalSelector(self.clock, self.dead)
        self.add_selector(selector)
        return selector

    def add_selector(self, selector: MortalSelector) -> None:
        """Answer what comes over these connections, and lose those to brokers that die."""
        selector.responder = lambda request: self._answer_from(selector.broker(request.connection_id), request)
        self.selectors.append(selector)

    def kill(self, broker: int) -> None:
        """Let a broker die now."""
        self.dead.add(broker)
        self._died_ms = self.clock.milliseconds()
        for selector in self.selectors:
            selector.lose(broker)

    @property
    def has_expired(self) -> bool:
        """Whether the survivors know that a broker is dead."""
        return bool(self.dead) and self.clock.milliseconds() - self._died_ms >= EXPIRY_MS

    def _appoint(self) -> None:
        """Give the offices of the dead to a survivor, once that may be known."""
        if self.has_expired and self.dead & set(self.holders.values()):
            survivor = min(set(range(BROKERS)) - self.dead)
            self.holders = {
                office: survivor if holder in self.dead else holder for office, holder in self.holders.items()
            }
            self.epoch += 1
        self.topics["t"] = [self.holders[Office.LEADER], self.holders[Office.LEADER]]

    def _answer_from(self, broker: int, request: SentRequest) -> Message | None:
        self._appoint()
        api_key = ApiKey(request.header.api_key)
        if broker == self.victim and api_key not in _ANSWERED_AT_DEATH:
            self.victim = None
            self.kill(broker)
        if broker in self.dead:
            return None
        self.requests.append(request)
        office = OFFICE_OF.get(api_key)
        error = ErrorCode.NONE
        if office is not None and self.holders[office] != broker and not self._is_for_any(request):
            error = _REFUSAL_OF[office]
        handler = self.handlers.get(api_key)
        if handler is not None and not error:
            answer: Message | None = handler(request)
            return answer
        if api_key in _ANSWERS:
            return _ANSWERS[api_key](request.body, int(error))
        # All that the request asks about, repeated with that error, or with none.
        return error_answer(request.body, request.header.api_version, ApiError(error))

    def _is_for_any(self, request: SentRequest) -> bool:
        """Whether this form of the request may be sent to any broker, or to a named one."""
        body, api_key = request.body, request.header.api_key
        return (api_key == ApiKey.INIT_PRODUCER_ID and body.transactional_id is None) or (
            api_key == ApiKey.LIST_OFFSETS and body.replica_id == -2
        )

    def _metadata(self, request: SentRequest) -> Message:
        self._appoint()
        answer = super()._metadata(request)
        assert isinstance(answer, MetadataResponse)
        gone = self.dead if self.has_expired else set()
        answer.brokers = [
            MetadataResponse.MetadataResponseBroker(broker, "127.0.0.1", FIRST_PORT + broker)
            for broker in range(BROKERS)
            if broker not in gone
        ]
        answer.controller_id = self.holders[Office.CONTROLLER]
        asked = request.body.topics
        if asked is not None:
            unknown = {topic.name for topic in asked} - self.topics.keys()
            named = {topic.name for topic in asked}
            answer.topics = [topic for topic in answer.topics if topic.name in named]
            answer.topics += metadata_response(dict.fromkeys(unknown, 3), BROKERS).topics
        return answer

    def find_coordinator(self, request: SentRequest) -> FindCoordinatorResponse:
        """Name the coordinator of every group and transactional id."""
        self._appoint()
        broker = self.holders[Office.COORDINATOR]
        place = (broker, "127.0.0.1", FIRST_PORT + broker)
        if request.header.api_version < 4:
            return FindCoordinatorResponse(node_id=place[0], host=place[1], port=place[2])
        return FindCoordinatorResponse(
            coordinators=[
                FindCoordinatorResponse.Coordinator(key, *place, 0, None) for key in request.body.coordinator_keys
            ]
        )

    def _error(self, request: SentRequest, topic: str, partition: int) -> ErrorCode:
        return ErrorCode.NONE
