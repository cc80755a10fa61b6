"""The settings the controller acts on.

Made once by `broker`, read on the controller's thread; frozen, so no lock. Kafka: the part of KafkaConfig that
KafkaController reads.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.config.setting import Settings, setting


def unclean_election_disabled() -> bool:
    """Return False, the default of `unclean.leader.election.enable`."""
    return False


class ElectionConfig(Settings):
    """The settings of an election, read for each one: they may change while the broker runs."""

    unclean_leader_election_enable: bool = setting("unclean.leader.election.enable")


class ControllerConfig(Settings):
    """The settings of a controller, named after Kafka's, and the values that the caller gives.

    broker_id: may have been generated. inter_broker_listener_name: where brokers find each other's leaders; may follow
    from the security protocol. unclean_leader_election_enable: as set when it is called.
    """

    broker_id: int
    inter_broker_listener_name: str
    delete_topic_enable: bool = setting("delete.topic.enable")
    unclean_leader_election_enable: Callable[[], bool] = unclean_election_disabled
    auto_leader_rebalance_enable: bool = setting("auto.leader.rebalance.enable")
    leader_imbalance_per_broker_percentage: int = setting("leader.imbalance.per.broker.percentage")
    leader_imbalance_check_interval_seconds: int = setting("leader.imbalance.check.interval.seconds")
