"""A broker without threads or sockets, for simulations of transactions: everything that transactions go through.

Real: the handlers of Produce, of the producers' requests, of markers and of transactional offsets, both coordinators,
replicas and logs. Simulated: disk, clock, scheduler, the way of the markers, and the store, which hands out producer
ids. A request is a frame; its answer is there when `ask` returns, unless the process dies before it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from barnabas.api.apis import Apis
from barnabas.api.handlers.produce import ProduceApi
from barnabas.api.handlers.transaction_markers import TransactionMarkersApi
from barnabas.api.handlers.transactional_offsets import TransactionalOffsetsApi
from barnabas.api.handlers.transactions import TransactionsApi
from barnabas.api.registry import Registry
from barnabas.api.request_parser import RequestParser
from barnabas.api.transaction_verification import TransactionVerification, VerificationErrors, VerificationMetrics
from barnabas.config.log_config import LogConfig
from barnabas.coordinator.transaction.held_back_answers import WAIT_MS, DelayedAdditions, DelayedRefusal
from barnabas.coordinator.transaction.transaction_metadata import RAISES_EPOCH_SINCE, ProducerIdAndEpoch
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.inter_broker import (
    UpdateMetadataRequest,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.protocol.messages.message import Message
from barnabas.protocol.topic_partition import TopicPartition, by_topic
from barnabas.records.file_records import FileRecords
from barnabas.records.record_batch import ControlRecord, RecordBatch, is_whole_batch
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_environment import LogManagerConfig
from tests.support.broker_origins import broker_origin
from tests.support.no_transaction_coordinator import BuiltVerifier
from tests.support.recording_channel import RecordingChannel, connection
from tests.support.simulated_files import PowerOff, SimulatedFiles
from tests.unit.coordinator.group.offset_harness import PARTITIONS as GROUP_PARTITIONS
from tests.unit.coordinator.group.offset_harness import GroupBroker
from tests.unit.coordinator.transaction.transaction_harness import PARTITIONS as STATE_PARTITIONS
from tests.unit.coordinator.transaction.transaction_harness import TransactionBroker
from tests.unit.replica.replica_harness import TOPIC_ID, US, Replicas
from tests.unit.storage.log_harness import Broker, log_config

DATA_PLACES = (TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0))
GROUP_PLACES = tuple(TopicPartition(GROUP_METADATA_TOPIC, number) for number in range(GROUP_PARTITIONS))
_STATE_PLACES = tuple(TopicPartition(TRANSACTION_STATE_TOPIC, number) for number in range(STATE_PARTITIONS))
_INTERNAL = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)


class StoredTopics(Broker):
    """The logs, small ones; those of the coordinators are compacted. flush_messages: of all topics."""

    def __init__(self, files: SimulatedFiles, *, flush_messages: int, seed: int) -> None:
        small = {"segment_bytes": 2000, "index_interval_bytes": 200, "flush_messages": flush_messages}
        self._of_coordinators = log_config(**small, cleanup_policy="compact")
        super().__init__(files, config=log_config(**small), manager_config=LogManagerConfig(), seed=seed)

    def config_of(self, topic: str) -> LogConfig:
        return self._of_coordinators if topic in _INTERNAL else self.config


class TransactionalBroker:
    """One life of the process: broker 0, which leads everything.

    epoch: of all its leaderships. first_producer_id: of the block that the store gives to this life.
    """

    def __init__(self, stored: StoredTopics, *, epoch: int, is_new: bool, first_producer_id: int) -> None:
        self.is_dead = False
        self.writes_markers_early = True
        """Whether markers are written while a request waits for them; else the request waits in vain."""
        self.replicas = replicas = Replicas(stored)
        self.scheduler = stored.scheduler
        self._announce()
        for topic, partition in DATA_PLACES:
            replicas.lead(topic, partition, leader_epoch=epoch, is_new=is_new)
        self.groups = GroupBroker(replicas=replicas, lead=False)
        self.groups.lead(epoch=epoch, is_new=is_new)
        self.transactions = TransactionBroker(
            replicas=replicas,
            places=(),
            epoch=epoch,
            is_new=is_new,
            transport=self,
        )
        self.transactions.next_id = first_producer_id
        self.transactions.expiry.start()
        self._parser = RequestParser(Registry(self._handlers()))
        self._apis = Apis(replicas.actions, lambda: 1)
        self._connection = connection()

    def _announce(self) -> None:
        """Put all topics into the metadata image, each at once: the number of partitions counts from its appearance."""
        topics = [
            UpdateMetadataRequest.UpdateMetadataTopicState(
                topic,
                TOPIC_ID,
                [
                    UpdateMetadataRequest.UpdateMetadataPartitionState(
                        partition_index=number, leader=US, leader_epoch=0, isr=[US], replicas=[US]
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic((*DATA_PLACES, *GROUP_PLACES, *_STATE_PLACES)).items()
        ]
        self.replicas.manager.orders.update_metadata(
            UpdateMetadataRequest(
                controller_id=US,
                controller_epoch=1,
                topic_states=topics,
                live_brokers=[UpdateMetadataRequest.UpdateMetadataBroker(id=US)],
            )
        )

    def _handlers(self) -> Sequence[Any]:
        replicas, groups = self.replicas, self.groups
        origin = broker_origin()
        verification = TransactionVerification(
            replicas.manager, BuiltVerifier(self), VerificationMetrics(replicas.clock)
        )
        producer_ids: Any = None  # of producers without transactional ids: there are none
        families = (
            ProduceApi(replicas.manager, replicas.metadata, None, verification),
            TransactionsApi(
                self.transactions.service,
                producer_ids,
                groups.partitions.partition_for,
                replicas.metadata,
                origin,
                None,
                DelayedAdditions(self.transactions.service, self.scheduler, replicas.clock),
            ),
            TransactionMarkersApi(replicas.manager, origin, replicas.clock, 1000, groups.transactional.end_transaction),
            TransactionalOffsetsApi(groups.transactional, verification, replicas.metadata, None),
        )
        return [handler for family in families for handler in family.handlers()]

    def ask(self, message: Message, version: int) -> Any:
        """Return the answer to a request. Raises PowerOff when the process dies before it is sent."""
        if self.is_dead:
            raise PowerOff
        frame = encode_request_header(message.api_key, version, 1, "me") + b"".join(map(bytes, message.encode(version)))
        channel = RecordingChannel()
        try:
            self._apis.handle(self._parser.parse(frame, self._connection, channel=channel, received_ns=1))
            if not channel.frames and self.writes_markers_early:
                self.transactions.send_markers()
            # A refusal that is held back comes at last, and then the leader asks no more.
            while not channel.frames:
                self.scheduler.tick(WAIT_MS)
                self.replicas.actions.run_all()
        except PowerOff:
            self.is_dead = True
            if not channel.frames:
                raise
        return channel.answer()

    def answer(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse | None:
        """Write markers: as the transport of the coordinator's markers."""
        found: WriteTxnMarkersResponse = self.ask(request, 1)
        return found

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
        """Answer a partition's leader, as TransactionCoordinator does."""
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        service = self.transactions.service
        if not adds:
            callback(service.verify(transactional_id, producer, partitions))
            return

        def added(error: ErrorCode) -> None:
            callback({} if error is ErrorCode.NONE else dict.fromkeys(partitions, error))

        refusal = DelayedRefusal(added, self.scheduler)
        service.add_partitions(
            transactional_id,
            producer,
            partitions,
            refusal.answer,
            client_version=RAISES_EPOCH_SINCE,
            waiter=refusal,
        )

    def log(self, place: TopicPartition) -> UnifiedLog:
        """The log of a partition."""
        found: UnifiedLog = self.replicas.partition(*place).log
        return found


def committed_values(log: UnifiedLog, max_bytes: int = 700) -> list[bytes]:
    """Return what a consumer of committed records reads, in several fetches: written independently of our consumer."""
    values: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        data = log.read(offset, max_bytes, FetchIsolation.TXN_COMMITTED)
        content = data.records.read() if isinstance(data.records, FileRecords) else bytes(data.records)
        data.release()
        waiting = sorted(data.aborted_transactions or (), key=lambda each: each.first_offset)
        aborted: set[int] = set()
        position, before = 0, offset
        while is_whole_batch(content, position):
            batch = RecordBatch(content, position)
            position = batch.end
            while waiting and waiting[0].first_offset <= batch.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            if batch.is_control:
                if ControlRecord.parse(next(batch.records()).key).type == 0:
                    aborted.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborted):
                values += [record.value or b"" for record in batch.records() if record.offset >= offset]
            before = batch.next_offset
        assert before > offset, f"no progress at {offset} of {log}"
        offset = before
    return values
