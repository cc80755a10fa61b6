"""The construction of a broker's transaction coordinator, over the replicas and the connections to brokers.

Imported and called once by `transaction_stage`, on the thread that needs it first. Kafka: TransactionCoordinator.apply.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.broker.channels.leader_connections import InterBrokerAddresses
from barnabas.broker.foundations import Foundations
from barnabas.broker.stages.replication_stage import ReplicationStage
from barnabas.config.listeners import inter_broker_listener_name_of
from barnabas.coordinator.runtime.coordinator_loader import CoordinatorLoader
from barnabas.coordinator.runtime.coordinator_log import CoordinatorLog
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.coordinator.transaction.marker_dispatch import EndedTransaction, MarkerDispatch
from barnabas.coordinator.transaction.marker_sender import MarkerSender, TransactionCompletion
from barnabas.coordinator.transaction.transaction_coordinator import (
    TransactionAdmin,
    TransactionCoordinator,
    TransactionCounts,
    TransactionExpiry,
)
from barnabas.coordinator.transaction.transaction_entry import TransactionTable
from barnabas.coordinator.transaction.transaction_environment import (
    TransactionCoordinatorConfig,
    TransactionEnvironment,
)
from barnabas.coordinator.transaction.transaction_loading import TransactionLoading
from barnabas.coordinator.transaction.transaction_log import TransitionLog
from barnabas.coordinator.transaction.transaction_service import TransactionService
from barnabas.coordinator.transaction.verification_sender import VerificationSender
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import TRANSACTION_STATE_TOPIC
from barnabas.protocol.topic_partition import TopicPartition


def build_transaction_coordinator(
    foundations: Foundations,
    replication: ReplicationStage,
    broker_id: int,
    partitions: CoordinatorPartitions,
    new_producer_id: Callable[[], int],
) -> TransactionCoordinator:
    """Build the coordinator."""
    kafka_config = foundations.dynamic.current
    config = TransactionCoordinatorConfig.from_kafka_config(kafka_config)
    replicas, metadata = replication.replicas, replication.metadata
    log = CoordinatorLog(TRANSACTION_STATE_TOPIC, replicas.appender, config.append_terms, foundations.clock)
    environment = TransactionEnvironment(
        config=config,
        clock=foundations.clock,
        actions=foundations.actions,
        partitions=partitions,
        table=TransactionTable(partitions),
        log=TransitionLog(log),
        new_producer_id=new_producer_id,
    )

    # The sender and the service call each other: what a client has ended goes to the sender, which stores the end.
    def send_markers(ended: EndedTransaction) -> None:
        sender.add(ended)

    service = TransactionService(environment, send_markers)

    addresses = InterBrokerAddresses(replication.connections, metadata, inter_broker_listener_name_of(kafka_config))
    completion = TransactionCompletion(service.complete, foundations.scheduler, foundations.actions)
    dispatch = MarkerDispatch(_is_current, completion.markers_written)
    sender = MarkerSender(
        dispatch,
        addresses,
        lambda: metadata.image,
        foundations.actions,
        "TxnMarkerSenderThread",
    )
    loading = TransactionLoading(environment, replicas.hosted.partition_or_error, send_markers)
    return TransactionCoordinator(
        partitions=partitions,
        loader=CoordinatorLoader(partitions, loading),
        transactions=service,
        markers=sender,
        verifications=VerificationSender(
            addresses,
            partial(_coordinator_of, partitions, metadata, broker_id),
            "AddPartitionsToTxnSenderThread",
        ),
        expiry=TransactionExpiry(environment, service, foundations.scheduler),
        admin=TransactionAdmin(environment),
        counts=TransactionCounts(lambda: dispatch.unknown_destinations, lambda: completion.waiting, loading.load_times),
        scheduler=foundations.scheduler,
    )


def _coordinator_of(
    partitions: CoordinatorPartitions, metadata: MetadataCache, own_id: int, transactional_id: str
) -> int | None:
    """Return the other broker that coordinates an id; None while it is not known, or about to be this broker."""
    image = metadata.image
    found = image.partition(TopicPartition(TRANSACTION_STATE_TOPIC, partitions.partition_for(transactional_id)))
    if found is None or found.leader == own_id or found.leader not in image.brokers:
        return None
    return found.leader


def _is_current(ended: EndedTransaction) -> bool:
    entry = ended.entry
    return not entry.is_removed and entry.metadata is ended.decided
