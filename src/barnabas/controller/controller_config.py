"""The settings the controller acts on.

Made once by `broker`, read on the controller's thread; frozen, so no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.config.kafka_config import KafkaConfig


def never() -> bool:
    """The default of `unclean.leader.election.enable`."""
    return False


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Named after Kafka's settings; `inter_broker_listener_name` is where brokers find each other's leaders."""

    broker_id: int
    inter_broker_listener_name: str
    delete_topic_enable: bool = True
    unclean_leader_election_enable: Callable[[], bool] = never
    """As set now; the others don't change while the broker runs."""
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_seconds: int = 300

    @classmethod
    def from_kafka_config(
        cls, current: Callable[[], KafkaConfig], *, broker_id: int, inter_broker_listener_name: str
    ) -> ControllerConfig:
        """`broker_id` may have been generated, the listener's name may follow from the security protocol.

        current: the broker's settings as in force when it is called.
        """
        config = current()
        return cls(
            broker_id,
            inter_broker_listener_name,
            delete_topic_enable=config.boolean("delete.topic.enable"),
            unclean_leader_election_enable=lambda: current().boolean("unclean.leader.election.enable"),
            auto_leader_rebalance_enable=config.boolean("auto.leader.rebalance.enable"),
            leader_imbalance_per_broker_percentage=config.integer("leader.imbalance.per.broker.percentage"),
            leader_imbalance_check_interval_seconds=config.integer("leader.imbalance.check.interval.seconds"),
        )
