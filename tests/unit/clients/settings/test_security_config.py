"""The security settings of the clients: what contradicts is refused in words, and secrets are never shown."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from barnabas.clients.authentication_errors import SaslAuthenticationError, SslAuthenticationError, authentication_error
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.clients.settings.client_security import channel_builder
from barnabas.rpc.connection_states import Node
from barnabas.security.sasl.client.client_authenticator import SaslRejected
from barnabas.transport.channel.authenticator import AuthenticationFailed

SECRET = "a-secret-of-tests"
LOGIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_username": "alice",
    "sasl_password": SECRET,
}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"security_protocol": "TLS"}, "security_protocol must be PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL"),
        ({"sasl_username": "alice"}, "sasl_username is given, and security_protocol is PLAINTEXT"),
        ({"ssl_truststore_location": "x.pem"}, "ssl_truststore_location is given, and security_protocol is PLAINTEXT"),
        ({**LOGIN, "ssl_keystore_key": SECRET}, "choose SSL or SASL_SSL"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        ({**LOGIN, "sasl_mechanism": "GSSAPI"}, "sasl_mechanism must be PLAIN or SCRAM-SHA-256"),
        ({**LOGIN, "sasl_username": None}, "needs sasl_username and sasl_password"),
        ({**LOGIN, "sasl_mechanism": "OAUTHBEARER"}, "needs sasl_oauthbearer_token"),
    ],
)
def test_settings_that_contradict_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        ClientConfig(**settings)
    assert SECRET not in str(caught.value)


def test_a_store_that_cannot_be_read_is_refused_when_the_client_is_made() -> None:
    config = ClientConfig(security_protocol="SSL", ssl_truststore_location="/nowhere/trust.pem")
    with pytest.raises(ValueError, match=r"ssl.truststore.location=/nowhere/trust.pem cannot be read"):
        config.network_config()


def test_no_secret_is_shown() -> None:
    config = ClientConfig(**LOGIN)
    assert SECRET not in repr(config)
    assert SECRET not in repr(config.network_config())
    assert SECRET not in str(vars(config))
    assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(TypeError) as caught:
        ClientConfig(**{**LOGIN, "sasl_password": SECRET.encode()})
    assert SECRET not in str(caught.value)


def test_plaintext_clients_keep_the_plain_channels() -> None:
    assert ClientConfig().network_config().channel_builder is None


def test_errors_name_the_broker_and_what_to_check() -> None:
    node = Node(1, "broker", 9093)
    rejected = authentication_error(node, SaslRejected("Authentication failed during authentication."))
    assert isinstance(rejected, SaslAuthenticationError)
    assert str(rejected).startswith("Authentication with broker:9093 failed: Authentication failed")
    assert "check sasl.mechanism" in str(rejected)
    failed = authentication_error(None, AuthenticationFailed("SSL handshake failed: X: certificate has expired"))
    assert isinstance(failed, SslAuthenticationError)
    assert str(failed).endswith("the broker needs a new certificate")


SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def jaas(text: str, **more: Any) -> ClientConfig:
    return ClientConfig(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=text, **more
    )


def test_a_login_context_of_java_names_the_user() -> None:
    config = jaas(f'{SCRAM_MODULE} required username="id" password="{SECRET}" tokenauth="true";')
    assert channel_builder(config, "c") is not None
    assert SECRET not in repr(config)


@pytest.mark.parametrize(
    ("text", "more", "reason"),
    [
        (f'{SCRAM_MODULE} required username="a" password="{SECRET}"', {}, "not terminated"),
        (f'x.PlainLoginModule required username="a" password="{SECRET}";', {}, "takes ScramLoginModule"),
        (f'{SCRAM_MODULE} required password="{SECRET}";', {}, "needs the options username and password"),
        (f'{SCRAM_MODULE} required username="a" password="{SECRET}";', {"sasl_username": "b"}, "choose one"),
    ],
)
def test_a_wrong_login_context_is_refused_without_its_password(text: str, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        jaas(text, **more)
    assert SECRET not in str(caught.value)
