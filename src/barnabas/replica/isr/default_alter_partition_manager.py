"""Changes of in-sync replicas that a leader asks the controller for, by AlterPartition requests (KIP-497).

Made by `broker`. Any thread calls `submit`, with no lock held; a thread of its own, made at the first change, sends
requests and calls back (`rpc.inter_broker_send_thread` has the lock between them). All other state is that thread's.

One request is in flight at a time, with all changes that wait by then, so that the death of a broker, which shrinks
thousands of partitions, costs a few requests. A change is asked for until the controller has answered it: the answer
may have been lost, or the controller may have moved, and the controller recognizes a change that is already written.

    change of A             request 1: A
    changes of B and C
    A is answered           request 2: B and C
    the connection breaks   request 3, to the controller as the metadata names it by then: B and C

Kafka: DefaultAlterPartitionManager, NodeToControllerRequestThread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from barnabas.config.config_error import ConfigError
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.inter_broker import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.replica.isr.isr_updates import IsrChange
from barnabas.replica.partitions.follower_state import UNKNOWN_BROKER_EPOCH
from barnabas.rpc.client_request import ClientResponse, RequestBuilder
from barnabas.rpc.connection_states import Node
from barnabas.rpc.inter_broker_send_thread import BrokerAddresses, InterBrokerSendThread
from barnabas.rpc.network_client import NetworkClient
from barnabas.zk.znodes.topic_zk_data import LeaderAndIsr, LeaderRecoveryState

logger = logging.getLogger(__name__)

RETRY_MS: Final = 50
"""The pause before a request is repeated. Kafka: the delay of send-alter-partition."""
UNKNOWN_CONTROLLER_PAUSE_MS: Final = 100
_LONGEST_POLL_MS: Final = 1_000
_FIRST_VERSION_WITH_BROKER_EPOCHS: Final = 3
_LAST_VERSION_WITH_TOPIC_NAMES: Final = 1
_Topic = AlterPartitionRequest.TopicData
_Partition = AlterPartitionRequest.PartitionData


class AlterPartitionSender(NamedTuple):
    """The broker that asks. broker_epoch: of its registration, which changes with each. last_version: of requests."""

    broker_id: int
    broker_epoch: Callable[[], int]
    last_version: int


class DefaultAlterPartitionManager:
    """A manager that asks the controller. controller_id: the broker that is the controller now, -1 if none is known."""

    def __init__(
        self, sender: AlterPartitionSender, addresses: BrokerAddresses, controller_id: Callable[[], int]
    ) -> None:
        self._sender = sender
        self._addresses = addresses
        self._controller_id = controller_id
        self._unanswered: dict[TopicPartition, IsrChange] = {}
        self._asked_broker_id: int | None = None
        """The broker that has a request and has not answered it."""
        self._next_request_ms = 0
        self._last_failure = ""
        name = f"broker-{sender.broker_id}-to-controller-alter-partition-channel-manager"
        self._thread = InterBrokerSendThread(addresses, self._turn, name, RETRY_MS)

    def submit(self, change: IsrChange) -> None:
        """Queue the change for the thread."""
        self._thread.start()
        self._thread.add(change)

    def shutdown(self) -> None:
        """Ask no more, and wait for the thread. Changes without an answer stay pending."""
        self._thread.shutdown()

    # -- the thread

    def _turn(self, client: NetworkClient, submitted: deque[IsrChange]) -> None:
        """Send what can be sent, and wait for an answer or for more."""
        for change in submitted:
            self._accept(change)
        now_ms = client.now_ms()
        client.poll(self._ask(client, now_ms) if self._unanswered else _LONGEST_POLL_MS, now_ms)

    def _accept(self, change: IsrChange) -> None:
        if change.partition in self._unanswered:
            # A later leadership proposes before the change of an earlier one is answered. Which of the two requests the
            # controller handles last would decide, so the later one has to be proposed again.
            text = f"Failed to enqueue ISR change state {change.wanted} for partition {change.partition}"
            _call_back(change, ApiError(ErrorCode.OPERATION_NOT_ATTEMPTED, text))
        else:
            self._unanswered[change.partition] = change

    def _ask(self, client: NetworkClient, now_ms: int) -> int:
        """Send a request if none is in flight and the controller is connected; return how long to poll at most."""
        controller_id = self._controller_id()
        if self._asked_broker_id is not None:
            if controller_id not in (self._asked_broker_id, -1):
                # The former controller may be frozen, and would not answer until the request times out.
                client.disconnect(self._asked_broker_id)
            return _LONGEST_POLL_MS
        if now_ms < self._next_request_ms:
            return self._next_request_ms - now_ms
        try:
            node = self._addresses.node(controller_id)
        except (KeyError, ConfigError):
            return UNKNOWN_CONTROLLER_PAUSE_MS
        if not client.ready(node, now_ms):
            return RETRY_MS
        self._send(client, node, now_ms)
        return _LONGEST_POLL_MS

    def _send(self, client: NetworkClient, node: Node, now_ms: int) -> None:
        changes = list(self._unanswered.values())
        versions = (AlterPartitionRequest.min_version, self._last_version_for(changes))
        build = partial(_request, self._sender, self._sender.broker_epoch(), changes)
        builder = RequestBuilder(AlterPartitionRequest, build, versions)
        client.send(client.new_request(node.id, builder, callback=partial(self._answered, changes)), now_ms)
        self._asked_broker_id = node.id

    def _last_version_for(self, changes: Sequence[IsrChange]) -> int:
        # Later versions name topics by their ids alone.
        has_ids = all(change.topic_id != ZERO_UUID for change in changes)
        return self._sender.last_version if has_ids else min(self._sender.last_version, _LAST_VERSION_WITH_TOPIC_NAMES)

    def _answered(self, changes: Sequence[IsrChange], response: ClientResponse) -> None:
        self._asked_broker_id = None
        body = response.body
        if not isinstance(body, AlterPartitionResponse):
            self._repeat_later(response, str(response.version_error or "no answer"))
            return
        error = error_of(body.error_code)
        if error is not ErrorCode.NONE:
            self._repeat_later(response, error.name)
            return
        outcomes = _outcomes(changes, body)
        left = [change for change in changes if _is_unanswered(outcomes.get(change.partition))]
        if left:
            # The sender knows a newer state than that broker, which is therefore no longer the controller.
            self._repeat_later(response, f"{ErrorCode.NOT_CONTROLLER.name} for {len(left)} partitions, or no answer")
        else:
            self._last_failure = ""
        for change in changes:
            outcome = outcomes.get(change.partition)
            if outcome is not None and not _is_unanswered(outcome):
                # Before the callback, which may submit the next change.
                del self._unanswered[change.partition]
                _call_back(change, outcome)

    def _repeat_later(self, response: ClientResponse, why: str) -> None:
        self._next_request_ms = response.received_ms + RETRY_MS
        failure = f"broker {response.request.node_id}: {why}"
        # Once and not twenty times a second while the cause lasts.
        if failure != self._last_failure:
            logger.warning("Changes of in-sync replicas are asked for again, after an answer of %s", failure)
        self._last_failure = failure


def _request(
    sender: AlterPartitionSender, broker_epoch: int, changes: Sequence[IsrChange], version: int
) -> AlterPartitionRequest:
    topics: dict[str, _Topic] = {}
    for change in changes:
        name = change.partition.topic
        topic = topics.setdefault(name, _Topic(topic_name=name, topic_id=change.topic_id, partitions=[]))
        topic.partitions.append(_partition(change, broker_epoch, version))
    return AlterPartitionRequest(broker_id=sender.broker_id, broker_epoch=broker_epoch, topics=list(topics.values()))


def _partition(change: IsrChange, own_epoch: int, version: int) -> _Partition:
    wanted = change.wanted
    result = _Partition(
        partition_index=change.partition.partition,
        leader_epoch=wanted.leader_epoch,
        partition_epoch=wanted.partition_epoch,
    )
    if version < _FIRST_VERSION_WITH_BROKER_EPOCHS:
        result.new_isr = list(wanted.isr)
    else:
        epochs = {**change.broker_epochs, wanted.leader: own_epoch}
        result.new_isr_with_epochs = [
            AlterPartitionRequest.BrokerState(replica, epochs.get(replica, UNKNOWN_BROKER_EPOCH))
            for replica in wanted.isr
        ]
    return result


def _outcomes(
    changes: Sequence[IsrChange], body: AlterPartitionResponse
) -> dict[TopicPartition, LeaderAndIsr | ApiError]:
    """Return the answer of each partition. Topics have an id or a name, depending on the version."""
    names = {change.topic_id: change.partition.topic for change in changes if change.topic_id != ZERO_UUID}
    return {
        TopicPartition(names.get(topic.topic_id, topic.topic_name), partition.partition_index): _outcome(partition)
        for topic in body.topics
        for partition in topic.partitions
    }


def _outcome(partition: AlterPartitionResponse.PartitionData) -> LeaderAndIsr | ApiError:
    if partition.error_code:
        return ApiError(error_of(partition.error_code))
    try:
        recovery = LeaderRecoveryState(partition.leader_recovery_state)
    except ValueError:
        text = f"The controller returned an invalid leader recovery state ({partition.leader_recovery_state})"
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    return LeaderAndIsr(
        partition.leader_id, partition.leader_epoch, tuple(partition.isr), recovery, partition.partition_epoch
    )


def _is_unanswered(outcome: LeaderAndIsr | ApiError | None) -> bool:
    return outcome is None or (isinstance(outcome, ApiError) and outcome.code is ErrorCode.NOT_CONTROLLER)


def _call_back(change: IsrChange, outcome: LeaderAndIsr | ApiError) -> None:
    try:
        change.on_done(outcome)
    except Exception:
        logger.exception("Applying the changed in-sync replicas of %s failed", change.partition)
