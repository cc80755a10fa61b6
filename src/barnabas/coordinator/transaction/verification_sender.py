"""The thread that asks the coordinators of other brokers whether a partition is part of a transaction (KIP-890).

A partition's leader must know before the first append of a transaction; for a producer of `transaction.version` 2 the
question adds the partition. `ask` is called by the requests of producers on any thread, and wakes the thread
(`inter_broker_send_thread`, which has the lock), which owns the questions and the connections. The thread begins with
the first question: a broker that stands alone has none.

A broker gets one request at a time, with all the questions that have come meanwhile. A question that finds no
coordinator is answered at once with a retriable error: the producer sends its batch again.
Kafka: AddPartitionsToTxnManager.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from barnabas.config.config_error import ConfigError
from barnabas.coordinator.transaction.transaction_metadata import ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_service import VerificationErrors
from barnabas.protocol.errors import ErrorCode, error_of
from barnabas.protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from barnabas.protocol.topic_partition import TopicPartition, by_topic
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.inter_broker_send_thread import BrokerAddresses, InterBrokerSendThread
from barnabas.rpc.network_client import NetworkClient

logger = logging.getLogger(__name__)

RETRY_MS: Final = 20
"""The pause before a connection that is not ready is looked at again."""
_LONGEST_POLL_MS: Final = 1_000
_VERSIONS: Final = (4, 5)
"""Those of brokers: clients send at most version 3."""
_Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
_Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic


class Question(NamedTuple):
    """The partitions that a producer is about to write to. adds: they are to be added to its transaction.

    callback: called once, on any thread, with the partitions that must not be written to.
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: Sequence[TopicPartition]
    adds: bool
    callback: Callable[[VerificationErrors], None]

    def refuse(self, error: ErrorCode) -> None:
        """Answer with one error for all partitions."""
        self.callback(dict.fromkeys(self.partitions, error))


class VerificationSender:
    """The thread and its queue. coordinator_of: returns the broker of a transactional id, None if it is not known."""

    def __init__(self, addresses: BrokerAddresses, coordinator_of: Callable[[str], int | None], name: str) -> None:
        self._addresses = addresses
        self._coordinator_of = coordinator_of
        self._waiting: dict[int, list[Question]] = {}
        """By broker, in the order of asking. The thread's own."""
        self._thread = InterBrokerSendThread(addresses, self._turn, name, RETRY_MS)

    def shutdown(self) -> None:
        """Stop asking, wait for the thread, and refuse the questions that are left."""
        self._thread.shutdown()
        left = [*self._thread.take_added(), *(each for waiting in self._waiting.values() for each in waiting)]
        self._waiting.clear()
        for question in left:
            question.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def ask(self, question: Question) -> None:
        """Have a question answered; at once, on this thread, after the shutdown."""
        self._thread.start()
        if not self._thread.add(question):
            question.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # -- the thread

    def _turn(self, client: NetworkClient, asked: deque[Question]) -> None:
        """Send what can be sent, and wait for an answer or for more."""
        for question in asked:
            broker_id = self._coordinator_of(question.transactional_id)
            if broker_id is None:
                question.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                self._waiting.setdefault(broker_id, []).append(question)
        for broker_id in list(self._waiting):
            self._send_to(client, broker_id)
        is_connecting = any(not client.in_flight_count(broker_id) for broker_id in self._waiting)
        client.poll(RETRY_MS if is_connecting else _LONGEST_POLL_MS, client.now_ms())

    def _send_to(self, client: NetworkClient, broker_id: int) -> None:
        """Send a broker its questions if it can be reached now; refuse them if it cannot be reached at all."""
        try:
            node = self._addresses.node(broker_id)
        except (KeyError, ConfigError):
            self._refuse_all(broker_id)  # the broker is gone: another one coordinates soon
            return
        if client.ready(node, client.now_ms()):
            questions = _one_a_transaction(self._waiting.pop(broker_id))
            if questions.later:
                self._waiting[broker_id] = questions.later
            message = AddPartitionsToTxnRequest(transactions=[_transaction(each) for each in questions.now])
            client.send(
                client.new_request(
                    broker_id, message, versions=_VERSIONS, callback=lambda response: _answer(questions.now, response)
                ),
                client.now_ms(),
            )
        elif client.connection_failed(node, client.now_ms()):
            self._refuse_all(broker_id)

    def _refuse_all(self, broker_id: int) -> None:
        for question in self._waiting.pop(broker_id):
            question.refuse(ErrorCode.NETWORK_EXCEPTION)


class _Split(NamedTuple):
    now: list[Question]
    later: list[Question]


def _one_a_transaction(questions: Sequence[Question]) -> _Split:
    """Split off the second question of one transaction: an answer tells transactions apart by their ids alone."""
    now: dict[str, Question] = {}
    later = []
    for question in questions:
        if question.transactional_id in now:
            later.append(question)
        else:
            now[question.transactional_id] = question
    return _Split(list(now.values()), later)


def _transaction(question: Question) -> _Transaction:
    topics = [_Topic(topic, numbers) for topic, numbers in by_topic(sorted(question.partitions)).items()]
    producer = question.producer
    return _Transaction(question.transactional_id, producer.producer_id, producer.epoch, not question.adds, topics)


def _answer(questions: Sequence[Question], response: ClientResponse) -> None:
    body = response.body
    if not isinstance(body, AddPartitionsToTxnResponse):
        for question in questions:
            question.refuse(ErrorCode.NETWORK_EXCEPTION)
        return
    if body.error_code:
        error = error_of(body.error_code)
        logger.error("A coordinator of transactions refuses the questions of this broker: %s", error.name)
        for question in questions:
            # Kafka's rule: a producer must not take the rights that this broker lacks for its own.
            is_broker_refused = error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            question.refuse(ErrorCode.INVALID_TXN_STATE if is_broker_refused else error)
        return
    errors = {
        each.transactional_id: {
            TopicPartition(topic.name, partition.partition_index): error_of(partition.partition_error_code)
            for topic in each.topic_results
            for partition in topic.results_by_partition
        }
        for each in body.results_by_transaction
    }
    for question in questions:
        found = errors.get(question.transactional_id, {})
        # A coordinator that leaves a partition out of its answer has not verified it.
        answers = {place: found.get(place, ErrorCode.NETWORK_EXCEPTION) for place in question.partitions}
        question.callback({place: error for place, error in answers.items() if error is not ErrorCode.NONE})
