"""The objects that the parts of a controller share: settings, context, store, channels, watches, state machines.

Made by Controller; immutable values whose members belong to the controller's thread, so no lock. Kafka: the fields of
KafkaController.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.controller.broker_request_batch import BrokerRequestBatch
from barnabas.controller.controller_channel_manager import ControllerChannelManager
from barnabas.controller.controller_context import ControllerConfig, ControllerContext
from barnabas.controller.controller_events import ControllerEvent
from barnabas.controller.controller_state import ControllerStats
from barnabas.controller.partition_state_machine import PartitionStateMachine
from barnabas.controller.replica_state_machine import ReplicaStateMachine
from barnabas.controller.store_watches import StoreWatches
from barnabas.zk.kafka_zk_client import KafkaZkClient


class ControllerEnvironment(NamedTuple):
    """The objects that every part of a controller works with."""

    config: ControllerConfig
    context: ControllerContext
    zk_client: KafkaZkClient
    channels: ControllerChannelManager
    watches: StoreWatches
    stats: ControllerStats
    put_event: Callable[[ControllerEvent], None]
    """Queues an event for the controller's thread. Any thread may call it."""

    def new_batch(self) -> BrokerRequestBatch:
        """Return a batch of requests to brokers, empty."""
        return BrokerRequestBatch(self.config, self.context, self.channels, self.put_event)


class StateMachines(NamedTuple):
    """The state machines of partitions and replicas, with a batch of requests for the parts beside them.

    Each has a batch of its own, as in Kafka: a batch that one of them has begun must not be sent by another.
    """

    replicas: ReplicaStateMachine
    partitions: PartitionStateMachine
    batch: BrokerRequestBatch
    batches: tuple[BrokerRequestBatch, ...]
    """All three batches."""

    @classmethod
    def of(cls, environment: ControllerEnvironment) -> StateMachines:
        """Make the state machines, with empty batches."""
        config, context, zk_client = environment.config, environment.context, environment.zk_client
        batch, of_replicas, of_partitions = batches = tuple(environment.new_batch() for _ in range(3))
        replicas = ReplicaStateMachine(config, context, zk_client, of_replicas)
        partitions = PartitionStateMachine(
            config, context, zk_client, of_partitions, environment.stats.unclean_elections
        )
        return cls(replicas, partitions, batch, batches)

    def clear(self) -> None:
        """Drop the requests collected for brokers: this broker is no longer the controller."""
        for batch in self.batches:
            batch.clear()
