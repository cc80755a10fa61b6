"""Parts follow the settings that concern them, and a change that one of them cannot follow changes nothing."""

from __future__ import annotations

import pytest

from barnabas.broker.reconfigurable_parts import SettingsFollower
from barnabas.broker.settings.dynamic_broker_config import DynamicBrokerConfig
from barnabas.broker.settings.server_config import RequestHandlerConfig
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.metadata.stored_configs import ALL_BROKERS
from barnabas.quota.replication_quota import UNLIMITED


class Part:
    """Follows the number of handlers; refuses, or fails, as it is told."""

    def __init__(self, *settings: str, most: int = 100, fails: bool = False) -> None:
        self.settings = frozenset(settings or {"num.io.threads"})
        self.most = most
        self.fails = fails
        self.seen: list[tuple[int, int]] = []

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        if proposed.integer("num.io.threads") > self.most:
            raise ConfigError("too many")

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        self.seen.append((previous.integer("num.io.threads"), current.integer("num.io.threads")))
        if self.fails:
            raise OSError("no room")


@pytest.fixture
def dynamic() -> DynamicBrokerConfig:
    config = DynamicBrokerConfig(KafkaConfig.parse({"num.io.threads": "3"}))
    config.load(lambda _entity: {}, 7)
    return config


def test_parts_hear_of_their_settings_only(dynamic: DynamicBrokerConfig) -> None:
    part, other = Part(), Part("background.threads")
    dynamic.add_reconfigurable(part)
    dynamic.add_reconfigurable(other)
    dynamic.entity_changed(ALL_BROKERS, {"num.io.threads": "5"})
    dynamic.entity_changed("7", {"num.io.threads": "6"})
    dynamic.entity_changed("8", {"num.io.threads": "9"})
    dynamic.entity_changed("7", {"num.io.threads": "6", "log.retention.ms": "5"})
    dynamic.entity_changed("7", {})
    assert part.seen == [(3, 5), (5, 6), (6, 5)]
    assert other.seen == []
    assert dynamic.current.integer("num.io.threads") == 5


def test_a_listeners_setting_counts_as_the_setting(dynamic: DynamicBrokerConfig) -> None:
    part = Part("max.connections")
    dynamic.add_reconfigurable(part)
    dynamic.entity_changed("7", {"listener.name.plaintext.max.connections": "5"})
    assert part.seen == [(3, 3)]


def test_what_one_part_cannot_follow_changes_nothing(dynamic: DynamicBrokerConfig) -> None:
    willing, refusing = Part(), Part(most=4)
    dynamic.add_reconfigurable(willing)
    dynamic.add_reconfigurable(refusing)
    with pytest.raises(ConfigError, match="too many"):
        dynamic.validate({"num.io.threads": "5"}, per_broker=True)
    dynamic.entity_changed("7", {"num.io.threads": "5"})
    assert willing.seen == refusing.seen == []
    assert dynamic.current.integer("num.io.threads") == 3
    dynamic.validate({"num.io.threads": "4"}, per_broker=True)


def test_what_was_accepted_before_another_change_was_applied_holds(dynamic: DynamicBrokerConfig) -> None:
    resized: list[int] = []
    dynamic.add_reconfigurable(SettingsFollower(RequestHandlerConfig, lambda pool: resized.append(pool.threads)))
    first, second = {"num.io.threads": "6"}, {"num.io.threads": "2", "log.retention.ms": "7"}
    for change in (first, second):
        dynamic.validate(change, per_broker=True)
    for change in (first, second):
        dynamic.entity_changed("7", change)
    assert resized == [6, 2]
    assert dynamic.settings.of_broker == second
    with pytest.raises(ConfigError, match="greater than double"):
        dynamic.validate({"num.io.threads": "5"}, per_broker=True)


def test_a_part_that_fails_keeps_nothing_from_the_others(dynamic: DynamicBrokerConfig) -> None:
    failing, other = Part(fails=True), Part()
    dynamic.add_reconfigurable(failing)
    dynamic.add_reconfigurable(other)
    dynamic.entity_changed("7", {"num.io.threads": "5"})
    assert failing.seen == other.seen == [(3, 5)]
    assert dynamic.current.integer("num.io.threads") == 5


def test_a_part_made_from_earlier_settings_is_brought_up_to_date(dynamic: DynamicBrokerConfig) -> None:
    made_from = dynamic.current
    dynamic.entity_changed("7", {"num.io.threads": "5"})
    late, in_time = Part(), Part()
    dynamic.add_reconfigurable(late, made_from=made_from)
    dynamic.add_reconfigurable(in_time, made_from=dynamic.current)
    assert (late.seen, in_time.seen) == ([(3, 5)], [])


def test_a_broker_starts_whatever_the_store_says(caplog: pytest.LogCaptureFixture) -> None:
    stored = {
        ALL_BROKERS: {"num.io.threads": "6", "broker.id": "5", "no.such.setting": "1"},
        "7": {"log.cleaner.dedupe.buffer.size": "1", "background.threads": "5"},
    }
    dynamic = DynamicBrokerConfig(KafkaConfig.parse({}))
    dynamic.load(stored.__getitem__, 7)
    assert dynamic.current.integer("num.io.threads") == 6
    assert dynamic.settings.of_cluster == {"num.io.threads": "6"}
    assert dynamic.settings.of_broker == {"background.threads": "5"}, "the other does not go together with the rest"
    assert "Ignoring a setting of the metadata store: log.cleaner.dedupe.buffer.size" in caplog.text
    dynamic.entity_changed("7", {"background.threads": "5"})
    assert dynamic.current.integer("background.threads") == 5


def test_a_host_that_is_not_known_any_more_does_not_end_the_start(caplog: pytest.LogCaptureFixture) -> None:
    dynamic = DynamicBrokerConfig(KafkaConfig.parse({}))
    stored = {"max.connections.per.ip.overrides": "gone.invalid:5"}
    dynamic.load(lambda entity: {} if entity == ALL_BROKERS else stored, 7)
    assert not dynamic.current.is_set("max.connections.per.ip.overrides")
    assert "gone.invalid is not known" in caplog.text


def test_a_change_that_nothing_acts_on_is_said_to_be_one(
    caplog: pytest.LogCaptureFixture, dynamic: DynamicBrokerConfig
) -> None:
    tiers = "remote.log.index.file.cache.total.size.bytes"
    dynamic.entity_changed("7", {tiers: "2"})
    kept = f"{tiers} (there is no tiered storage)"
    assert f"nothing acts on their change: {kept}" in caplog.text
    caplog.clear()
    dynamic.entity_changed(
        "7",
        {tiers: "2", "num.io.threads": "4"},
    )
    assert "nothing acts" not in caplog.text


def test_secrets_are_not_logged(caplog: pytest.LogCaptureFixture, dynamic: DynamicBrokerConfig) -> None:
    caplog.set_level("INFO")
    name = "listener.name.plaintext.ssl.keystore.password"
    dynamic.entity_changed("7", {name: "open sesame", "num.io.threads": "4"})
    assert "num.io.threads=4" in caplog.text
    assert name in caplog.text
    assert "sesame" not in caplog.text
    assert "sesame" not in repr(dynamic.current)


def test_throttles_of_this_broker_come_before_those_of_all(dynamic: DynamicBrokerConfig) -> None:
    name = "leader.replication.throttled.rate"
    assert dynamic.settings.throttle(name) == UNLIMITED
    dynamic.entity_changed(ALL_BROKERS, {name: "9"})
    dynamic.entity_changed("7", {name: "2"})
    assert dynamic.settings.throttle(name) == 2
    dynamic.entity_changed("7", {})
    assert dynamic.settings.throttle(name) == 9


def test_defaults_of_the_cluster_are_not_blamed_for_what_the_file_lacks() -> None:
    """The file has a TLS listener, whose key store is among this broker's own settings."""
    dynamic = DynamicBrokerConfig(KafkaConfig.parse({}, "file"))
    stored = {
        ALL_BROKERS: {"message.max.bytes": "2000000", "log.cleaner.threads": "2"},
        "7": {"background.threads": "5"},
    }

    def check_start(config: KafkaConfig) -> None:
        if config.integer("background.threads") != 5:
            raise ConfigError("the listener has no key store")

    dynamic.load(stored.__getitem__, 7, check_start)
    assert dynamic.settings.of_cluster == stored[ALL_BROKERS]
    assert dynamic.settings.of_broker == stored["7"]
