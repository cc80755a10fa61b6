"""Which protocols a broker offers its groups."""

from __future__ import annotations

import pytest

from barnabas.config.kafka_config import KafkaConfig
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig

PROTOCOLS, EMULATED = "group.coordinator.rebalance.protocols", "broker.emulate.version"


@pytest.mark.parametrize(
    ("settings", "offers"),
    [
        ({}, True),
        ({PROTOCOLS: "classic"}, False),
        ({EMULATED: "3.9"}, False),
        ({EMULATED: "4.0"}, True),
        ({EMULATED: "4.0", PROTOCOLS: "classic"}, False),
        ({EMULATED: "3.9", PROTOCOLS: "classic,consumer"}, True),
    ],
)
def test_consumer_groups_are_offered_unless_settings_or_the_release_played_say_no(
    settings: dict[str, str], offers: bool
) -> None:
    config = KafkaConfig.parse({"log.dirs": "/nowhere", **settings})
    assert GroupCoordinatorConfig.from_kafka_config(config).consumer.is_enabled is offers
