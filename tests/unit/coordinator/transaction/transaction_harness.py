"""A transaction coordinator over a real log on a simulated disk; markers go where a test sends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from barnabas.coordinator.runtime.coordinator_loader import CoordinatorLoader, CpuReadings
from barnabas.coordinator.transaction.marker_dispatch import EndedTransaction, MarkerDispatch
from barnabas.coordinator.transaction.transaction_coordinator import TransactionExpiry
from barnabas.coordinator.transaction.transaction_loading import TransactionLoading
from barnabas.coordinator.transaction.transaction_metadata import ProducerIdAndEpoch, TransactionMetadata
from barnabas.coordinator.transaction.transaction_service import EndResult, InitResult, TransactionService
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.metadata.topic_name import TRANSACTION_STATE_TOPIC
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.lock_order import check_no_lock_held
from tests.unit.coordinator.transaction_environment import transaction_environment
from tests.unit.replica.replica_harness import US, Replicas
from tests.unit.storage.log_harness import Broker

ID = "id"
PARTITIONS = 3
PLACES = [TopicPartition("a", 0), TopicPartition("b", 1)]


class MarkerTransport(Protocol):
    """The way of markers to the leaders of partitions."""

    def answer(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse | None:
        """Return the leader's answer, None when the connection is lost."""


class ScriptedTransport:
    """Answers markers with `errors` by place, NONE without one; `is_lost`: with nothing."""

    def __init__(self) -> None:
        self.requests: list[WriteTxnMarkersRequest] = []
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.is_lost = False

    def answer(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse | None:
        """What the leader answers, None when the connection is lost."""
        self.requests.append(request)
        if self.is_lost:
            return None
        answer = WriteTxnMarkersResponse
        return answer(
            [
                answer.WritableTxnMarkerResult(
                    marker.producer_id,
                    [
                        answer.WritableTxnMarkerTopicResult(
                            topic.name,
                            [
                                answer.WritableTxnMarkerPartitionResult(
                                    number, self.errors.get(TopicPartition(topic.name, number), ErrorCode.NONE)
                                )
                                for number in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )


class TransactionBroker:
    """Leads the partitions of `__transaction_state`, loaded; leads `places`.

    transport: of the markers; one that a test scripts if none is given.
    """

    def __init__(
        self,
        broker: Broker | None = None,
        *,
        epoch: int = 0,
        is_new: bool | None = None,
        places: Sequence[TopicPartition] = PLACES,
        replicas: Replicas | None = None,
        transport: MarkerTransport | None = None,
        **settings: Any,
    ) -> None:
        self.replicas = replicas or Replicas(broker)
        self.clock = self.replicas.clock
        self.scheduler = self.replicas.broker.scheduler
        self.next_id = 100
        self.environment = transaction_environment(self.replicas, self._new_id, **settings)
        self.partitions, self.table = self.environment.partitions, self.environment.table
        self.transport = ScriptedTransport()
        self._markers_to: MarkerTransport = transport or self.transport
        self.dispatch = MarkerDispatch(self._is_current, self._written)
        self.service = TransactionService(self.environment, self._send_markers)
        self.expiry = TransactionExpiry(self.environment, self.service, self.scheduler)
        loading = TransactionLoading(
            self.environment, self.replicas.manager.hosted.partition_or_error, self._send_markers
        )
        self.loader = CoordinatorLoader(
            self.partitions, loading, start=self._start_loading, readings=lambda: CpuReadings(0, 0, 0)
        )
        for place in places:
            self.announce(place, US)
        self.partitions.start()
        for partition in range(PARTITIONS):
            self.replicas.lead(
                TRANSACTION_STATE_TOPIC, partition, leader_epoch=epoch, is_new=not epoch if is_new is None else is_new
            )
            self.loader.load(partition, epoch)
        self.scheduler.tick()

    def announce(self, place: TopicPartition, leader: int) -> None:
        """Say who leads a partition; this broker is alive."""
        self.replicas.announce(*place, leader)
        self.replicas.brokers_alive(US)

    def _send_markers(self, ended: EndedTransaction) -> None:
        check_no_lock_held("ordering markers")
        self.dispatch.add(ended)

    @staticmethod
    def _is_current(ended: EndedTransaction) -> bool:
        return not ended.entry.is_removed and ended.entry.metadata is ended.decided

    def _written(self, ended: EndedTransaction) -> None:
        self.service.complete(ended, lambda error: None)
        self.replicas.actions.run_all()

    def send_markers(self) -> None:
        """Send once what can be sent."""
        image: MetadataImage = self.replicas.metadata.image
        for request in list(self.dispatch.requests(image)):
            self.dispatch.answered(request, self._markers_to.answer(request.message))

    @property
    def has_markers(self) -> bool:
        """Whether any transaction waits for markers."""
        return bool(len(self.dispatch))

    def _start_loading(self, run: Callable[[], None]) -> None:
        self.scheduler.schedule("transaction-loader", run)

    def _new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def init(self, expected: ProducerIdAndEpoch | None = None, *, timeout_ms: int = 1000) -> InitResult:
        """Begin as a producer."""
        answers: list[InitResult] = []

        def answered(result: InitResult) -> None:
            check_no_lock_held("answering")
            answers.append(result)

        try:
            self.service.init_producer_id(ID, timeout_ms, expected, answered)
        except ApiError as error:
            return InitResult(error.code)
        self.replicas.actions.run_all()
        (answer,) = answers
        return answer

    def producer(self) -> ProducerIdAndEpoch:
        """Begin as a producer that nothing keeps from it."""
        result = self.init()
        assert result.error is ErrorCode.NONE
        return result.producer

    def add(self, producer: ProducerIdAndEpoch, *places: TopicPartition) -> ErrorCode:
        return self._answer(lambda respond: self.service.add_partitions(ID, producer, places or PLACES, respond))

    def end(self, producer: ProducerIdAndEpoch, *, commit: bool) -> ErrorCode:
        return self._answer(lambda respond: self.service.end(ID, producer, is_commit=commit, on_done=respond))

    def end_with_next_epoch(self, producer: ProducerIdAndEpoch, *, commit: bool) -> EndResult:
        """End as a producer of transaction.version 2."""
        answers: list[EndResult] = []

        def answered(result: EndResult) -> None:
            check_no_lock_held("answering")
            answers.append(result)

        self.service.end_with_next_epoch(ID, producer, is_commit=commit, on_done=answered)
        self.replicas.actions.run_all()
        (answer,) = answers
        return answer

    def _answer(self, ask: Callable[[Callable[[ErrorCode], None]], None]) -> ErrorCode:
        answers: list[ErrorCode] = []

        def answered(error: ErrorCode) -> None:
            check_no_lock_held("answering")
            answers.append(error)

        ask(answered)
        self.replicas.actions.run_all()
        (answer,) = answers
        return answer

    @property
    def value(self) -> TransactionMetadata:
        """What is known of `ID`."""
        found = self.table.get(ID)
        assert found is not None
        return found.metadata

    def restarted(self) -> TransactionBroker:
        """Another coordinator over the same logs, in the next leader epoch."""
        for partition in range(PARTITIONS):
            self.replicas.stop(TRANSACTION_STATE_TOPIC, partition, leader_epoch=-1, delete=False)
        return TransactionBroker(self.replicas.broker, epoch=1)
