"""The fourth stage of a broker's start: its candidate for controller.

Built by BrokerServer on the main thread, before the sockets: requests may ask the controller as soon as they are read.
The candidate stands for election only when this broker is registered (`BrokerServer.startup`).
Kafka: the part of KafkaServer.startup about KafkaController.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from barnabas.api.origins import RefusedOrders
from barnabas.broker.channels.broker_channels import BrokerConnections
from barnabas.broker.foundations import Foundations
from barnabas.broker.settings.topic_log_configs import on_unclean_election_allowed
from barnabas.broker.stages.storage_stage import StorageStage
from barnabas.config.listeners import inter_broker_listener_name_of
from barnabas.controller.controller import Controller
from barnabas.controller.controller_context import ControllerConfig, ElectionConfig
from barnabas.controller.controller_metrics import register_controller_metrics
from barnabas.zk.znodes.config_znodes import ConfigEntityType


class ControlStage(NamedTuple):
    """This broker's controller, not elected yet."""

    controller: Controller
    ready: threading.Event
    """Set when this broker was elected controller and has acted on all requests of its own controller, or when another
    broker is the controller and has sent the metadata of the cluster. Also set when `refused` says that no controller
    can reach this broker."""
    refused: RefusedOrders


def build_control(foundations: Foundations, storage: StorageStage, connections: BrokerConnections) -> ControlStage:
    """Make the candidate; nothing is started. connections: over which it reaches brokers when it is elected."""
    config = foundations.dynamic.current
    broker_id = storage.identity.broker_id
    ready = threading.Event()
    controller = Controller(
        ControllerConfig.from_kafka_config(
            config,
            broker_id=broker_id,
            inter_broker_listener_name=inter_broker_listener_name_of(config),
            # Read at each election, since the setting is dynamic.
            unclean_leader_election_enable=lambda: (
                ElectionConfig.from_kafka_config(foundations.dynamic.current).unclean_leader_election_enable
            ),
        ),
        storage.zk_client,
        storage.registration.register,
        connections.new_channel,
        foundations.scheduler,
        on_ready=ready.set,
        clock=foundations.clock,
    )
    register_controller_metrics(foundations.metrics, controller)
    storage.config_changes.register(
        ConfigEntityType.TOPIC, on_unclean_election_allowed(controller.enable_unclean_leader_election)
    )
    return ControlStage(controller, ready, RefusedOrders(ready.set))
