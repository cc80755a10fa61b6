"""Which settings may change while the broker runs, and what holds when several names say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_error import ConfigError
from barnabas.config.config_key import Scope
from barnabas.config.dynamic_settings import (
    DYNAMIC_ONLY_KEYS,
    BrokerSettings,
    apply_changes,
    base_name,
    check_dynamic_settings,
    is_password,
    synonyms_of,
    usable_settings,
)
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.kept_settings import KEPT_KEYS, kept_settings
from barnabas.config.server_defaults import SERVER_DEFAULTS

RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
DYNAMIC_NUMBERS = sorted(
    name
    for name, key in BROKER_CONFIG_KEYS.items()
    if key.scope is Scope.CLUSTER_WIDE and isinstance(key.default, int) and not isinstance(key.default, bool)
)


def settings(
    static: dict[str, str], of_cluster: dict[str, str] | None = None, of_broker: dict[str, str] | None = None
) -> BrokerSettings:
    return BrokerSettings.of(KafkaConfig.parse(static), of_cluster or {}, of_broker or {})


def test_the_brokers_own_come_before_those_of_all_and_those_before_the_files() -> None:
    static = {"num.io.threads": "3", "background.threads": "4"}
    assert settings(static).current.integer("num.io.threads") == 3
    assert settings(static, {"num.io.threads": "5"}).current.integer("num.io.threads") == 5
    both = settings(static, {"num.io.threads": "5", "background.threads": "6"}, {"num.io.threads": "7"})
    assert both.current.integer("num.io.threads") == 7
    assert both.current.integer("background.threads") == 6
    assert both.static.integer("num.io.threads") == 3
    assert both.with_broker({}).current.integer("num.io.threads") == 5


@pytest.mark.parametrize("name", RETENTION)
def test_what_is_changed_counts_whatever_name_the_file_uses(name: str) -> None:
    """A retention in the file's hours, minutes or ms gives way to the one that was set later, in ms."""
    changed = settings({name: "7"}, {"log.retention.ms": "5000"}).current
    assert changed.integer("log.retention.ms") == 5000
    assert [changed.is_set(other) for other in RETENTION] == [True, False, False]


def test_settings_of_a_listener_leave_those_of_all_in_place() -> None:
    changed = settings({"max.connections": "9"}, {}, {"listener.name.plaintext.max.connections": "5"}).current
    assert changed.integer("max.connections") == 9
    assert changed.of_listener("PLAINTEXT").integer("max.connections") == 5
    assert changed.of_listener("OTHER").integer("max.connections") == 9


def test_settings_that_no_file_has_do_not_get_into_one() -> None:
    rate = dict.fromkeys(DYNAMIC_ONLY_KEYS, "5")
    check_dynamic_settings(rate, per_broker=True)
    assert not settings({}, rate).current.originals


def test_settings_that_exclude_each_other_are_refused_wherever_they_come_from() -> None:
    with pytest.raises(ConfigError, match="must be at least 1MB per cleaner thread"):
        settings({"log.cleaner.threads": "4"}, {"log.cleaner.dedupe.buffer.size": "3000000"})


@given(
    st.dictionaries(st.sampled_from(RETENTION), st.integers(1, 9).map(str)),
    st.dictionaries(st.sampled_from(RETENTION), st.integers(1, 9).map(str), min_size=1, max_size=1),
)
def test_of_several_names_only_the_one_laid_over_is_left(below: dict[str, str], above: dict[str, str]) -> None:
    merged = dict(below)
    apply_changes(merged, above)
    assert merged == above


@given(st.sampled_from(DYNAMIC_NUMBERS), st.text(max_size=8))
def test_any_text_is_a_value_or_a_config_error(name: str, text: str) -> None:
    usable, complaints = usable_settings({name: text}, per_broker=True)
    assert (usable == {name: text}) != bool(complaints)


def test_what_cannot_be_used_is_left_out_and_the_rest_holds() -> None:
    stored = {"num.io.threads": "9", "num.partitions": "3", "log.retention.ms": "soon", "listeners": "A://:1", "x": "y"}
    usable, complaints = usable_settings(stored, per_broker=False)
    assert usable == {"num.io.threads": "9"}
    assert len(complaints) == 4


def test_names() -> None:
    assert base_name("listener.name.plain.text.max.connections") == "text.max.connections"
    assert base_name("listener.name.external.max.connections") == "max.connections"
    assert base_name("max.connections") == "max.connections"
    sasl = "listener.name.external.scram-sha-256.sasl.jaas.config"
    assert synonyms_of(sasl) == (sasl, "sasl.jaas.config")
    assert is_password(sasl)
    assert not is_password("sasl.mechanism")
    check_dynamic_settings({sasl: "secret"}, per_broker=True)


def test_what_is_kept_only_is_named_when_a_file_says_something_of_its_own() -> None:
    default = BROKER_CONFIG_KEYS["group.max.size"]
    properties = {**SERVER_DEFAULTS, "group.max.size": str(default.default), "sasl.login.class": "a.Login"}
    assert kept_settings(KafkaConfig.parse(properties)) == {"sasl.login.class": KEPT_KEYS["sasl.login.class"]}
