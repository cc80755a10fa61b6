"""Sends the admin client's requests to the broker that can answer them, and raises the errors in answers.

Owned by `Admin`, and called by it and its parts, on any thread: `_lock` lets one request at a time through.
Kafka: KafkaAdminClient.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

from barnabas.clients.admin.group_coordinators import PASSING_ERRORS, CoordinatedIds, ask_coordinators
from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.calls.offset_lookup import (
    UNKNOWN_PARTITION_MS,
    LeaderWaits,
    OffsetAndTimestamp,
    ask_leaders,
    lookup_offsets,
)
from barnabas.clients.client_metrics import MeasuredNetwork, MetricName, counted, network_metrics
from barnabas.clients.errors import ClientTimeout, Disconnected
from barnabas.clients.metadata.cluster import Cluster
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.message import Message
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import Node

# The default request timeout: a broker that works for longer answers a client that has given up.
_LONGEST_BROKER_TIMEOUT_MS = 30_000

# Brokers hear of a change from the controller, within milliseconds. One that takes longer is not waited for.
_LONGEST_SPREAD_MS = 2_000
_SPREAD_PAUSE_MS = 10

_A = TypeVar("_A", bound=Message)
_V = TypeVar("_V")


class AdminCalls:
    """The calls of one admin client. `timeout_ms` bounds each call, retries included."""

    def __init__(self, client: BlockingClient, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()

    def metrics(self, client_id: str) -> dict[MetricName, float]:
        """Return the metrics of the connections. Any thread may call it, also while another waits for an answer."""
        network = self._client.network
        measured = network_metrics("admin-client", client_id, [MeasuredNetwork(network.counters)], network.now_ms())
        return counted(measured, client_id)

    @property
    def broker_timeout_ms(self) -> int:
        """The timeout to put into requests, within which the broker has to do its work."""
        return min(self._timeout_ms, _LONGEST_BROKER_TIMEOUT_MS)

    def ask(
        self,
        request: Message,
        answer_class: type[_A],
        to: Callable[[Cluster], Node | None] | None = None,
        versions: tuple[int, int] | None = None,
    ) -> _A:
        """Return the answer of the node that `to` chooses, or of any node. Raises ClientTimeout, Disconnected."""
        with self._lock:
            answer = self._client.call(request, to=to, versions=versions, deadline_ms=self._deadline_ms())
        assert isinstance(answer, answer_class)
        return answer

    def ask_broker(
        self, broker_id: int, request: Message, answer_class: type[_A], versions: tuple[int, int] | None = None
    ) -> _A:
        """Return the answer of one broker.

        Raises ApiError: BROKER_ID_NOT_REGISTERED when the cluster has no such broker; ClientTimeout, Disconnected.
        """
        with self._lock:
            answer = self._client.call_broker(broker_id, request, versions=versions, deadline_ms=self._deadline_ms())
        assert isinstance(answer, answer_class)
        return answer

    def await_all_brokers(self, request: Message, answer_class: type[_A], has_heard: Callable[[_A], bool]) -> None:
        """Ask each broker until its answer shows that it has heard of a change that the controller has made.

        Brokers that cannot be reached, or that take more than two seconds, are left out. Without a second broker
        nothing is asked.
        """
        with self._lock:
            client = self._client
            deadline_ms = min(self._deadline_ms(), client.now_ms() + _LONGEST_SPREAD_MS)
            nodes = tuple(client.metadata.cluster.nodes.values())
            for node in nodes if len(nodes) > 1 else ():
                with suppress(Disconnected, ClientTimeout):
                    while client.now_ms() < deadline_ms:
                        answer = client.call_node(node, request, deadline_ms=deadline_ms)
                        assert isinstance(answer, answer_class)
                        if has_heard(answer):
                            break
                        client.poll(_SPREAD_PAUSE_MS)

    def ask_controller(
        self,
        request: Message,
        answer_class: type[_A],
        errors: Callable[[_A], Iterable[int]],
        versions: tuple[int, int] | None = None,
    ) -> _A:
        """Return the answer of the controller, or of its successor. Raises ClientTimeout, Disconnected.

        errors(answer): all error codes of an answer.
        """
        # The lock is held while this thread waits: BlockingClient has room for one caller.
        with self._lock:
            deadline_ms = self._deadline_ms()
            while True:
                # Each attempt chooses again: newer metadata name the new controller.
                answer = self._client.call(
                    request, to=lambda cluster: cluster.controller, versions=versions, deadline_ms=deadline_ms
                )
                assert isinstance(answer, answer_class)
                is_former = any(code == ErrorCode.NOT_CONTROLLER for code in errors(answer))
                if not is_former or self._client.now_ms() >= deadline_ms:
                    return answer
                self._client.pause_for_metadata(deadline_ms)

    def ask_all_coordinators(
        self,
        request: Message,
        answer_class: type[_A],
        error_of_answer: Callable[[_A], int],
        versions: tuple[int, int] | None = None,
    ) -> dict[int, _A]:
        """Return each broker's answer about all that it coordinates, once it has loaded that, by broker id.

        A broker that is lost leaves its groups to others, which may have answered already: all are asked again then.
        error_of_answer(answer): its error code. Raises ClientTimeout, and Disconnected when a broker that is still
        registered cannot be reached until the timeout.
        """
        with self._lock:
            client = self._client
            deadline_ms = self._deadline_ms()
            answers: dict[int, _A] = {}
            problem: Exception | None = None
            known: set[int] | None = None
            while True:
                nodes = client.await_nodes(deadline_ms)
                registered = {node.id for node in nodes}
                if known is not None and known != registered:
                    answers.clear()  # what a lost broker coordinated is with others now
                known = registered
                left = [node for node in nodes if node.id not in answers]
                for node in left:
                    try:
                        answer = client.call_node(node, request, versions=versions, deadline_ms=deadline_ms)
                    except Disconnected as error:
                        problem = error
                        break
                    assert isinstance(answer, answer_class)
                    if error_of_answer(answer) not in PASSING_ERRORS or client.now_ms() >= deadline_ms:
                        answers[node.id] = answer
                else:
                    if all(node.id in answers for node in left):
                        return answers
                if client.now_ms() >= deadline_ms:
                    raise problem or client.metadata.timeout("The coordinators did not answer in time")
                client.pause_for_metadata(deadline_ms)

    def ask_leaders(
        self,
        partitions: Collection[TopicPartition],
        request_for: Callable[[Collection[TopicPartition]], Message],
        results_in: Callable[[_A], Iterable[tuple[TopicPartition, int, _V]]],
        versions: tuple[int, int] | None = None,
    ) -> dict[TopicPartition, _V]:
        """Return each partition's result, from its leader. Raises ApiError, ClientTimeout."""
        with self._lock:
            return ask_leaders(
                self._client,
                partitions,
                request_for,
                results_in,
                LeaderWaits(self._deadline_ms(), UNKNOWN_PARTITION_MS),
                versions=versions,
            )

    def ask_coordinators(
        self,
        wanted: CoordinatedIds,
        request_for: Callable[[Sequence[str]], Message],
        results_in: Callable[[_A], Iterable[tuple[str, int, _V]]],
        versions: tuple[int, int] | None = None,
    ) -> dict[str, tuple[Node, _V]]:
        """Return each id's coordinator and result. Raises ApiError, ClientTimeout."""
        with self._lock:
            return ask_coordinators(
                self._client, wanted, request_for, results_in, self._deadline_ms(), versions=versions
            )

    def ask_coordinator(
        self,
        group_id: str,
        request: Message,
        answer_class: type[_A],
        errors: Callable[[_A], Iterable[int]],
        versions: tuple[int, int] | None = None,
    ) -> _A:
        """Return the answer of one group's coordinator, once it has no error that may pass.

        errors(answer): all error codes of an answer. Raises ApiError, ClientTimeout.
        """

        def results_in(answer: _A) -> Iterable[tuple[str, int, _A]]:
            assert isinstance(answer, answer_class)
            # An answer has an error code for each partition. One that may pass is enough for a retry of the request.
            yield group_id, next((code for code in errors(answer) if code in PASSING_ERRORS), 0), answer

        _, answer = self.ask_coordinators(CoordinatedIds([group_id]), lambda _groups: request, results_in, versions)[
            group_id
        ]
        return answer

    def lookup_offsets(
        self, timestamps_ms: dict[TopicPartition, int], isolation_level: int
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return each partition's offset by time. Raises ApiError, ClientTimeout."""
        with self._lock:
            return lookup_offsets(
                self._client,
                timestamps_ms,
                self._deadline_ms(),
                isolation_level=isolation_level,
                unknown_ms=UNKNOWN_PARTITION_MS,
            )

    def close(self) -> None:
        """Close the connections. Idempotent."""
        with self._lock:
            self._client.close()

    def _deadline_ms(self) -> int:
        return self._client.now_ms() + self._timeout_ms


class AdminPart:
    """Some of the methods of `Admin`, which is made of all its parts."""

    _calls: AdminCalls
