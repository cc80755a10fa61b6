"""The notation of settings: what follows from a declared field."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, field, replace
from typing import Any

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.config_values import ConfigValues
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.setting import Settings, computed, setting


def _backlog(config: ConfigValues) -> int:
    return config.integer("socket.listen.backlog.size") if config.is_set("socket.listen.backlog.size") else 1024


class Example(Settings):
    name: str
    threads: int = setting("num.io.threads")
    window_ms: int = setting("quota.window.size.seconds", lambda seconds: seconds * 1000)
    backlog: int = computed(_backlog, "socket.listen.backlog.size", "listeners")


def test_fields_take_the_values_of_their_settings() -> None:
    config = KafkaConfig.parse({"num.io.threads": "3", "quota.window.size.seconds": "2"})
    assert Example.from_kafka_config(config, name="a") == Example("a", threads=3, window_ms=2000, backlog=1024)
    assert Example("a") == Example("a", threads=8, window_ms=1000, backlog=1024), "the defaults are those of the rows"


def test_a_field_given_by_hand_is_not_read() -> None:
    assert Example.from_kafka_config(KafkaConfig.parse({}), name="a", threads=5).threads == 5
    with pytest.raises(TypeError, match="name"):
        Example.from_kafka_config(KafkaConfig.parse({}))


def test_a_listener_has_its_own_values_first() -> None:
    config = KafkaConfig.parse(
        {"socket.listen.backlog.size": "7", "listener.name.external.socket.listen.backlog.size": "9"}
    )
    backlogs = [Example.from_kafka_config(config.of_listener(name), name="a").backlog for name in ("EXTERNAL", "OTHER")]
    assert backlogs == [9, 7]


def test_which_settings_reach_a_part_follows_from_its_fields() -> None:
    assert Example.names() == {"num.io.threads", "quota.window.size.seconds", "socket.listen.backlog.size", "listeners"}
    assert Example.dynamic_names() == {"num.io.threads", "listeners"}


def test_instances_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Example("a").threads = 3  # type: ignore[misc]


def test_a_name_that_is_in_no_table_fails_at_import() -> None:
    with pytest.raises(KeyError, match=r"num\.io\.thread"):
        setting("num.io.thread")
    with pytest.raises(KeyError, match="listener"):
        computed(_backlog, "listener")


def test_a_value_that_a_field_cannot_be_made_of_is_named() -> None:
    def refuse(value: int) -> int:
        raise ConfigError.invalid("num.io.threads", value, "no")

    class Refusing(Settings):
        threads: int = setting("num.io.threads", refuse)

    with pytest.raises(ConfigError, match=r"Invalid value 8 for configuration num\.io\.threads: no"):
        Refusing.from_kafka_config(KafkaConfig.parse({}))


class Mixed(Settings):
    name: str
    threads: int = setting("num.io.threads")
    lines: list[str] = field(default_factory=list, repr=False)


def test_a_config_class_is_a_frozen_dataclass() -> None:
    mixed = Mixed("a", lines=["secret"])
    assert mixed == Mixed(name="a", threads=8, lines=["secret"]) != Mixed("b", lines=["secret"])
    assert repr(mixed) == "Mixed(name='a', threads=8)"
    assert replace(mixed, threads=3) == Mixed("a", 3, ["secret"])
    assert Mixed("a").lines is not Mixed("a").lines
    with pytest.raises(FrozenInstanceError, match="threads"):
        mixed.threads = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="threads"):
        del mixed.threads
    assert len({Few(), Few()}) == 1


class Few(Settings):
    threads: int = setting("num.io.threads")


@pytest.mark.parametrize(
    ("values", "named", "reason"),
    [
        ((), {}, "Mixed lacks a value for 'name'"),
        (("a", 1, [], 2), {}, "Mixed has 3 fields, but 4 values were given"),
        (("a",), {"name": "b"}, "Mixed got two values for 'name'"),
        (("a",), {"nome": "b"}, "Mixed has no fields nome"),
    ],
)
def test_a_wrong_field_is_named(values: tuple[Any, ...], named: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        Mixed(*values, **named)
