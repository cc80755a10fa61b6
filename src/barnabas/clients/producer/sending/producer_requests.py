"""The requests that a producer sends beside its batches: for a producer id or transactions, and to push its metrics.

Owned by the sending thread; no lock. Kafka: the part of Sender that serves the TransactionManager.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.clients.producer.accumulator.record_accumulator import RecordAccumulator
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.sending.producer_id_request import ProducerIdRequests
from barnabas.clients.producer.sequences.sequence_numbers import SequenceNumbers
from barnabas.clients.producer.transactions.transaction_requests import TransactionRequests
from barnabas.clients.producer.transactions.transactional_sequences import TransactionalSequences
from barnabas.rpc.network_client import NetworkClient


class ProducerRequests(Protocol):
    """The requests of one purpose of one producer."""

    def turn(self, now_ms: int) -> int:
        """Send what is due. Returns the milliseconds until the next call makes sense."""
        ...

    def must_go_on(self) -> bool:
        """Return whether a producer that closes still has to send or to wait for an answer."""
        ...

    def closed(self) -> None:
        """Fail what still waits, because the sending thread ends."""
        ...


def producer_requests(
    client: NetworkClient, accumulator: RecordAccumulator, sequences: SequenceNumbers, config: ProducerConfig
) -> ProducerRequests:
    """Return the requests that go with these sequence numbers."""
    if isinstance(sequences, TransactionalSequences):
        return TransactionRequests(client, accumulator, sequences, config)
    return ProducerIdRequests(client, accumulator, sequences, config)
