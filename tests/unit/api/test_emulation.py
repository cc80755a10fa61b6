"""Which APIs and versions are left when the broker plays one release of Apache Kafka."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from barnabas.api.registry import BETWEEN_BROKERS
from barnabas.broker.stages.api_table import build_registry
from barnabas.config.broker_config_keys import KAFKA_RELEASES
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kafka_releases import HISTORY, RELEASES, served_versions

SETTING = "broker.emulate.version"


@pytest.mark.parametrize(
    ("release", "api_key", "versions"),
    [
        ("2.8", ApiKey.FETCH, (0, 12)),
        ("3.4", ApiKey.LEADER_AND_ISR, (0, 7)),
        ("3.9", ApiKey.PRODUCE, (0, 11)),
        ("3.9", ApiKey.DESCRIBE_TOPIC_PARTITIONS, None),
        ("4.0", ApiKey.PRODUCE, (3, 12)),
        ("4.0", ApiKey.LEADER_AND_ISR, None),
        ("4.0", ApiKey.SHARE_FETCH, None),  # not stable yet
        ("4.3", ApiKey.DESCRIBE_LOG_DIRS, (1, 5)),
    ],
)
def test_what_a_release_has(release: str, api_key: ApiKey, versions: tuple[int, int] | None) -> None:
    assert served_versions(release).get(api_key) == versions


@pytest.mark.interpreted
@pytest.mark.parametrize("release", RELEASES)
def test_nothing_is_left_that_the_release_has_not(release: str) -> None:
    whole = build_registry(MagicMock()).handlers
    narrowed = build_registry(MagicMock(), emulated_release=release).handlers
    served = served_versions(release)
    clients = narrowed.keys() - BETWEEN_BROKERS
    assert clients == (served.keys() & whole.keys()) - BETWEEN_BROKERS, "what both have stays"
    for api_key in clients:
        kept = set(range(narrowed[api_key].min_version, narrowed[api_key].max_version + 1))
        lowest, highest = served[ApiKey(api_key)]
        ours = range(whole[api_key].min_version, whole[api_key].max_version + 1)
        assert kept == set(range(lowest, highest + 1)) & set(ours)


@pytest.mark.interpreted
@pytest.mark.parametrize("release", RELEASES)
def test_the_controller_is_understood_whatever_clients_see(release: str) -> None:
    for api_key in (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA):
        whole = build_registry(MagicMock()).handlers[api_key]
        narrowed = build_registry(MagicMock(), emulated_release=release).handlers[api_key]
        assert (narrowed.min_version, narrowed.max_version) == (whole.min_version, whole.max_version)
        assert narrowed.listed == served_versions(release).get(api_key)


@pytest.mark.interpreted
def test_librdkafka_finds_codecs_by_a_version_that_is_not_accepted() -> None:
    produce = build_registry(MagicMock(), emulated_release="4.0").handlers[ApiKey.PRODUCE]
    assert (produce.listed, produce.min_version) == ((0, 12), 3)


def test_every_change_names_a_release() -> None:
    since = [change.split(" ")[0] for history in HISTORY.values() for change in history.split(", ")]
    assert set(since) <= set(RELEASES)
    assert KAFKA_RELEASES == RELEASES, "the setting takes what the table has"


def test_other_releases_are_refused_with_those_there_are() -> None:
    assert KafkaConfig.parse({SETTING: "3.6"}).optional_string(SETTING) == "3.6"
    assert KafkaConfig.parse({}).optional_string(SETTING) is None
    with pytest.raises(ConfigError, match=r"must be one of: 2\.8, 3\.0, .*, 4\.3"):
        KafkaConfig.parse({SETTING: "1.1"})
