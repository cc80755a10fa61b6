"""The verification that a producer's first batch of a transaction is part of an open transaction (KIP-890). Pure.

Held by `ProducerStates`, guarded by the log's lock. The coordinator is asked without any lock, so the transaction may
end before its answer comes. The marker of that end removes the verification, and the late answer has no effect:

    handler thread                      handler thread of the coordinator's marker
    begin: a verification is held
    asks the coordinator: it is open
                                        abort marker: the verification is removed
    end: it is not held any more
    append: INVALID_TXN_STATE, since the records would belong to no transaction

Kafka: VerificationStateEntry, VerificationGuard.
"""

from __future__ import annotations

from barnabas.records.record_batch import NO_PRODUCER_EPOCH


class Verification:
    """The verification of one producer in one partition, until its first batch is appended.

    producer_epoch: the highest that was named. lowest_sequence: of the batches of that epoch that wait. No later one
    may be appended before it, or its retry would be out of order for good. verified_epoch: the coordinator says that a
    transaction of this epoch is open; -1 until then. A batch of any other epoch needs a verification of its own, so one
    with an epoch that the producer does not have yet cannot stand in the producer's way. is_version_2: the producer
    follows transaction.version 2, so its first batch in a partition that knows nothing of it has sequence 0.
    """

    __slots__ = ("is_version_2", "lowest_sequence", "producer_epoch", "started_ms", "verified_epoch")

    def __init__(self, producer_epoch: int, lowest_sequence: int, started_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        self.started_ms = started_ms
        self.verified_epoch = NO_PRODUCER_EPOCH
        self.is_version_2 = False
