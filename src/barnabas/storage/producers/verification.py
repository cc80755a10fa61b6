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


class Verification:
    """The verification of one producer in one partition, until its first batch is appended.

    lowest_sequence: of the batches that wait. No later one may be appended before it, or its retry would be out of
    order for good. is_verified: the coordinator says that the transaction is open.
    """

    __slots__ = ("is_verified", "lowest_sequence", "producer_epoch", "started_ms")

    def __init__(self, producer_epoch: int, lowest_sequence: int, started_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        self.started_ms = started_ms
        self.is_verified = False
