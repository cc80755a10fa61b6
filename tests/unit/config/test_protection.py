"""A setting that promises protection which this version does not have stops the start, and is refused at run time."""

from __future__ import annotations

import pytest

from barnabas.broker.settings.dynamic_broker_config import DynamicBrokerConfig
from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_error import ConfigError
from barnabas.config.config_key import ConfigType
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.keys.security_keys import SECURITY_KEYS
from barnabas.config.protection import PROMISES, ProtectionMissing


@pytest.mark.parametrize(
    ("name", "value", "missing"),
    [
        ("authorizer.class.name", "org.example.Authorizer", "kafka.security.authorizer.AclAuthorizer selects the"),
        ("ssl.engine.factory.class", "org.example.Engines", "it would encrypt nothing"),
        (
            "listener.name.external.plain.sasl.server.callback.handler.class",
            "org.example.Users",
            "it would refuse nothing",
        ),
        ("sasl.kerberos.service.name", "kafka", "there is no Kerberos"),
        ("principal.builder.class", "org.example.Principals", "it would name no principal"),
        ("create.topic.policy.class.name", "org.example.Policy", "it would refuse nothing"),
    ],
)
def test_a_promise_stops_the_start(name: str, value: str, missing: str) -> None:
    with pytest.raises(ProtectionMissing) as caught:
        KafkaConfig.parse({name: value})
    assert caught.value.name == name
    assert missing in caught.value.message
    key = BROKER_CONFIG_KEYS.get(name.rpartition("listener.name.")[2])
    if "secret" in value or (key is not None and key.type is ConfigType.PASSWORD):
        assert f"{name}=[hidden]" in caught.value.message
    else:
        assert f"{name}={value}" in caught.value.message


def test_all_promises_are_named_at_once() -> None:
    settings = {
        "ssl.engine.factory.class": "org.example.Engines",
        "super.users": "User:admin",
        "authorizer.class.name": "org.example.Authorizer",
    }
    with pytest.raises(ProtectionMissing) as caught:
        KafkaConfig.parse(settings)
    for name in ("ssl.engine.factory.class", "authorizer.class.name"):
        assert f"{name}={settings[name]}" in caught.value.message
    assert "super.users" not in caught.value.message, "it promises something only to an authorizer"


def test_kafkas_defaults_written_out_promise_nothing() -> None:
    written_out = {
        key.name: text
        for key in SECURITY_KEYS
        if (text := key.text(key.default)) is not None and key.type is not ConfigType.PASSWORD
    }
    assert "ssl.client.auth" in written_out
    KafkaConfig.parse({**written_out, "zookeeper.set.acl": "false", "security.inter.broker.protocol": "PLAINTEXT"})
    KafkaConfig.parse({"ssl.keystore.location": "", "listener.name.plaintext.ssl.truststore.location": ""})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("principal.builder.class", "org.example.Principals"),
        ("listener.name.plaintext.ssl.engine.factory.class", "org.example.Engines"),
    ],
)
def test_a_promise_cannot_be_made_while_the_broker_runs(name: str, value: str) -> None:
    dynamic = DynamicBrokerConfig(KafkaConfig.parse({}))
    dynamic.load(lambda _entity: {}, 7)
    with pytest.raises(ConfigError, match="promise protection"):
        dynamic.validate({name: value}, per_broker=True)


def test_every_promise_is_of_a_setting_that_exists() -> None:
    assert not PROMISES.keys() - BROKER_CONFIG_KEYS.keys()
