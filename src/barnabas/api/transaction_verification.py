"""The question to a transaction's coordinator before the first append of its producer to a partition (KIP-890).

Asked by Produce for batches of transactions, and by TxnOffsetCommit, on the request's thread, which holds no lock. A
late batch could otherwise open a transaction that no coordinator knows of, and readers of committed records would wait
behind it for ever. Until then the log keeps a verification (`storage.producers.entry`): without a confirmed one it
rejects the batch. For a producer of `transaction.version` 2, which adds no partitions itself, the question adds them.

The coordinator of this broker mostly answers at once, and the request goes on in place. An answer from another thread
goes on with it on a request handler's.

The batch that begins a transaction of version 2 often comes while the one before is being ended. The coordinator then
says so when that may be over (CONCURRENT_TRANSACTIONS), and is asked again, for `WAIT_MS` in all. Each question begins
with a verification of its own: the marker of the transaction before, once it is written, ends the earlier one.
The marker may also come after the verification has begun and before the coordinator is asked, which then says yes: the
coordinator is asked again in this case too.

Kafka: ReplicaManager.maybeStartTransactionVerificationForPartitions, AddPartitionsToTxnManager.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from barnabas.api.request import Request
from barnabas.metrics.histogram import Histogram
from barnabas.metrics.meter import Meter
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partitions.partition import Partition
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.storage.producers.entry import Verification

RETRIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of a coordinator that pass, and that a producer would not expect from a partition's leader."""

WAIT_MS: Final = 100
"""How long a batch waits for the end of the transaction before (Kafka: add.partitions.to.txn.retry.backoff.max.ms)."""

_METRICS_GROUP: Final = "kafka.server"
_METRICS_TYPE: Final = "AddPartitionsToTxnManager"

VerificationErrors: TypeAlias = Mapping[TopicPartition, ErrorCode]
"""The partitions that cannot be written to, with the reason."""


class TransactionalProducer(NamedTuple):
    """The producer of a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TransactionalWrite(NamedTuple):
    """A partition that a transaction is about to write to. base_sequence: of the batch; -1 of a coordinator's."""

    place: TopicPartition
    base_sequence: int


class VerificationTerms(NamedTuple):
    """What the version of the request says.

    tells_abortable: it has TRANSACTION_ABORTABLE. adds: it adds the partitions to the transaction (KIP-890).
    """

    tells_abortable: bool
    adds: bool


class VerificationQuestion(NamedTuple):
    """What a request asks: may this producer write to these partitions, on these terms."""

    producer: TransactionalProducer
    writes: Sequence[TransactionalWrite]
    terms: VerificationTerms


class _Begun(NamedTuple):
    """A verification that has begun in a partition's log."""

    partition: Partition
    verification: Verification


class _Beginning(NamedTuple):
    """The verifications that have begun, and the errors of the partitions where none can."""

    begun: dict[TopicPartition, _Begun]
    errors: dict[TopicPartition, ErrorCode]


class VerificationMetrics:
    """The counts of verifications, made by `broker`.

    failures: partitions that may not be written to. times_ms: from a question to its answer. Counted on any thread, and
    read by the reporters of metrics; `_lock` guards the counts.
    """

    def __init__(self, clock: Clock) -> None:
        self.now_ns = clock.nanoseconds
        self.failures = Meter()
        self.times_ms = Histogram()
        self._lock = threading.Lock()

    def register(self, registry: MetricsRegistry) -> None:
        """Register the rate of failures and the duration of verifications, by Kafka's names."""
        text = "Partitions for which the first batch of a transaction was not verified"
        registry.register(_METRICS_GROUP, _METRICS_TYPE, "VerificationFailureRate", text, self.failures)
        text = "Until the transaction's coordinator had verified a first batch"
        registry.register(_METRICS_GROUP, _METRICS_TYPE, "VerificationTimeMs", text, self.times_ms)

    def count(self, asked_ns: int, failures: int) -> None:
        """Count an answer to the question that was asked at `asked_ns`, with this number of failures."""
        took_ms = (self.now_ns() - asked_ns) // NANOSECONDS_PER_MILLISECOND
        with self._lock:
            self.failures.count += failures
            self.times_ms.update(took_ms)


class TransactionVerifier(Protocol):
    """The coordinators of transactions, as partition leaders ask them. Handed in by `broker`."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        callback: Callable[[VerificationErrors], None],
        *,
        adds: bool,
    ) -> None:
        """Find out which partitions are part of the producer's open transaction, or, with `adds`, add them to it.

        `callback` is called once, on any thread and without locks: with TRANSACTION_ABORTABLE for each partition that
        is not part of it, INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED for another producer,
        CONCURRENT_TRANSACTIONS while the transaction is being ended, or the reason why no coordinator can say. With
        `adds`, CONCURRENT_TRANSACTIONS is returned when the end may be over, and not at once.
        """


class LateVerifier(Protocol):
    """The coordinators of transactions of a broker that builds its own when it is needed. Handed in by `broker`."""

    @property
    def built(self) -> TransactionVerifier | None:
        """The coordinators, or None before they are needed."""

    def __call__(self) -> TransactionVerifier:
        """Return the coordinators. Builds this broker's own, which takes too long for a network thread."""


class TransactionVerification:
    """Asks for the partitions that a transaction has not written to yet."""

    def __init__(self, replicas: ReplicaManager, verifier: LateVerifier, metrics: VerificationMetrics) -> None:
        self._hosted = replicas.hosted
        self._run_queued = replicas.waiting.run_queued
        self._verifier = verifier
        self._metrics = metrics

    def verify(
        self,
        request: Request[Any],
        question: VerificationQuestion,
        on_verified: Callable[[VerificationErrors], None],
        *,
        before_asking: Callable[[], None] | None = None,
        deadline_ns: int | None = None,
    ) -> None:
        """Call `on_verified` once, with the errors of the partitions that must not be written to.

        In place when nothing has to be asked or the coordinator answers at once, else later on a request handler's
        thread. before_asking: called in place when a coordinator is asked: the frame of the request must not be used
        after this call has returned. deadline_ns: the end of the time in which the coordinator is asked again; by
        default it begins now.
        """
        producer, terms = question.producer, question.terms
        begun, errors = self._begin(question)
        if not begun:
            on_verified(errors)
            return
        if before_asking is not None:
            before_asking()
        asking_thread: int | None = threading.get_ident()
        asked_ns = self._metrics.now_ns()
        until_ns = asked_ns + WAIT_MS * NANOSECONDS_PER_MILLISECOND if deadline_ns is None else deadline_ns

        def verified(refused: VerificationErrors) -> None:
            overtaken = _end_verifications(producer, begun, refused)
            if terms.adds:
                refused = {**refused, **dict.fromkeys(overtaken, ErrorCode.CONCURRENT_TRANSACTIONS)}
                is_early = ErrorCode.CONCURRENT_TRANSACTIONS in refused.values()
                if is_early and self._metrics.now_ns() < until_ns:
                    request.channel.resume(request.deferred(again))
                    return
            self._metrics.count(asked_ns, len(refused))
            errors.update((place, _error_for_producer(code, terms.tells_abortable)) for place, code in refused.items())
            if asking_thread == threading.get_ident():
                on_verified(errors)
            else:
                request.channel.resume(request.deferred(later))

        def later() -> None:
            on_verified(errors)
            self._run_queued()

        def again() -> None:
            self.verify(request, question, on_verified, deadline_ns=until_ns)
            self._run_queued()

        def built() -> None:
            self._verifier()
            again()

        verifier = self._verifier.built
        if verifier is None:
            request.channel.resume(request.deferred(built))
            return
        verifier.verify(*producer, list(begun), verified, adds=terms.adds)
        # An answer that comes later may find this very thread at work for another request.
        asking_thread = None

    def _begin(self, question: VerificationQuestion) -> _Beginning:
        """Begin a verification in the log of each partition that needs one."""
        producer, writes, terms = question
        beginning = _Beginning({}, {})
        for place, base_sequence in writes:
            try:
                partition = self._hosted.partition_or_error(place.topic, place.partition)
                found = partition.begin_verification(
                    producer.producer_id, producer.producer_epoch, base_sequence, is_required=terms.adds
                )
            except ApiError as error:
                beginning.errors[place] = error.code
            else:
                if found is not None:
                    beginning.begun[place] = _Begun(partition, found)
        return beginning


def _end_verifications(
    producer: TransactionalProducer, begun: Mapping[TopicPartition, _Begun], refused: VerificationErrors
) -> list[TopicPartition]:
    """Tell the logs what the coordinator has confirmed; return the partitions where a marker came first."""
    return [
        place
        for place, (partition, verification) in begun.items()
        if place not in refused
        and not partition.log.producers.end_verification(producer.producer_id, producer.producer_epoch, verification)
    ]


def _error_for_producer(code: ErrorCode, tells_abortable: bool) -> ErrorCode:
    """Return the error in the words of the request's version. Kafka: AddPartitionsToTxnHandler."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not tells_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code


def producer_error(code: ErrorCode, *, adds: bool) -> ApiError:
    """Return the error for a producer when a coordinator has refused or cannot be asked.

    A producer retries NOT_ENOUGH_REPLICAS, and asks for no metadata because of it. A producer whose
    batches add their partitions gets CONCURRENT_TRANSACTIONS, an error that it knows: its last transaction is often
    still being ended. Kafka: ReplicaManager.
    """
    if code is ErrorCode.INVALID_TXN_STATE:
        return ApiError(code, "Partition was not added to the transaction")
    if code in RETRIABLE and not (adds and code is ErrorCode.CONCURRENT_TRANSACTIONS):
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, text)
    return ApiError(code)
