"""What the coordinator knows of a transactional id. Immutable.

Made by `transitions` and by loading; held by a TransactionEntry. Kafka: TransactionMetadata, TxnTransitMetadata.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.coordinator.transaction.states import TransactionState
from barnabas.protocol.topic_partition import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
LARGEST_EPOCH: Final = 0x7FFF
LAST_USABLE_EPOCH: Final = LARGEST_EPOCH - 1
"""No producer gets a larger epoch: the last one stays for the coordinator, which fences with it."""
RAISES_EPOCH_SINCE: Final = 2
"""The first `transaction.version` of producers whose epoch is raised with the end of each transaction (KIP-890)."""


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """A transactional id. Times are wall clock milliseconds; `start_ms` is -1 without a transaction.

    producer_epoch: -1 before the first producer has been told it. last_epoch: the one before, when the producer that
    has the id has raised it itself (KIP-360); a repeated request names it.
    client_version: the `transaction.version` by which the producer last changed its transaction.
    next_producer_id: what the producer has been told to use once the transaction, which took the last epoch, is
    complete; -1 for the same id.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)
    start_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    last_epoch: int = NO_EPOCH
    client_version: int = 0
    next_producer_id: int = NO_PRODUCER_ID

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer id has no epoch left for another producer."""
        return self.producer_epoch >= LAST_USABLE_EPOCH

    @property
    def raises_epoch(self) -> bool:
        """Whether the producer gets another epoch with each transaction."""
        return self.client_version >= RAISES_EPOCH_SINCE

    @property
    def next_producer(self) -> ProducerIdAndEpoch:
        """The producer id and epoch of the next transaction, also while the markers of this one are written."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)
