"""The users of PLAIN in a setting of their own: who can log in, and which settings are refused in which words."""

from __future__ import annotations

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.security.sasl.plain_server import PlainUsers
from barnabas.security.sasl.sasl_config import SaslConfig
from barnabas.security.sasl.sasl_listener import SaslListener
from barnabas.security.sasl.sasl_server import LoginParts
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler
from tests.support.sasl_exchange import JAAS, Credentials, versions

SETTING = "listener.name.external.sasl.plain.users"
LOGIN_CONTEXT = "listener.name.external.plain.sasl.jaas.config"
OF_THE_BROKER = JAAS.partition("user_")[0] + 'username="broker" password="broker-secret";'


def open_listener(settings: dict[str, str]) -> SaslListener:
    config = KafkaConfig.parse(settings | {"sasl.enabled.mechanisms": "PLAIN"})
    clock = MockClock()
    parts = LoginParts(Credentials(), versions, clock, MockScheduler(clock))
    return SaslListener("EXTERNAL", SaslConfig.of(config, "EXTERNAL"), parts)


def test_names_and_passwords() -> None:
    users = PlainUsers.of_setting("alice:a:b c , bob:=;\"',")
    assert len(users) == 2
    assert users.is_valid("alice", "a:b c")
    assert users.is_valid("bob", "=;\"'")
    assert not users.is_valid("bob", "")
    assert "a:b" not in repr(users)


def test_a_listener_takes_them_beside_the_broker_s_own_login() -> None:
    for settings in ({}, {LOGIN_CONTEXT: OF_THE_BROKER}):
        open_listener(settings | {SETTING: "alice:alice-secret"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "set listener.name.external.sasl.plain.users=<name>:<password>,..., or"),
        (
            {SETTING: "alice:x,hush-hush"},
            "listener EXTERNAL: entry 2 of 2 is not <name>:<password>",
        ),
        ({SETTING: ":hush-hush"}, "entry 1 of 1 is not"),
        ({SETTING: "alice:"}, "entry 1 of 1 is not"),
        ({SETTING: "alice:hush-hush,alice:other"}, "entry 2 of 2 names a user a second time"),
        ({SETTING: "alice:hush-hush", LOGIN_CONTEXT: JAAS}, "has users in sasl.plain.users and in"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_listener(settings)
    assert message in caught.value.message
    assert "hush" not in repr(caught.value)
