"""The table of SASL mechanisms: each row has its two sides, and every reader rejects a name without a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest

from barnabas.broker.channels.inter_broker_security import broker_login_of
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.secret import Secret
from barnabas.security.sasl import oauth_listener, plain_server, scram_server
from barnabas.security.sasl.client import oauthbearer_client, plain_client, scram_client
from barnabas.security.sasl.client.client_authenticator import PasswordUser, SaslLogin
from barnabas.security.sasl.jaas import InvalidJaas
from barnabas.security.sasl.login_context import user_of_login_context
from barnabas.security.sasl.mechanisms import MECHANISMS, NOT_OFFERED
from barnabas.security.sasl.sasl_config import SaslConfig
from barnabas.security.sasl.sasl_listener import SaslListener
from barnabas.security.sasl.sasl_server import LoginParts, MechanismSettings, ServedMechanism
from barnabas.security.sasl.scram_mechanism import SCRAM_MECHANISMS
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler
from tests.support.sasl_exchange import Credentials, versions


class ServerSide(Protocol):
    __name__: str

    def serve(self, settings: MechanismSettings) -> ServedMechanism: ...


class PasswordSide(Protocol):
    __name__: str

    def login(self, mechanism: str, user: PasswordUser) -> SaslLogin: ...


class TokenSide(Protocol):
    __name__: str

    def login(self, mechanism: str, new_token: Callable[[], str]) -> SaslLogin: ...


# mypy compares the modules with the Protocols, which their names in the table cannot show.
SERVERS: tuple[ServerSide, ...] = (plain_server, scram_server, oauth_listener)
PASSWORD_CLIENTS: tuple[PasswordSide, ...] = (plain_client, scram_client)
TOKEN_CLIENTS: tuple[TokenSide, ...] = (oauthbearer_client,)


@pytest.mark.parametrize("name", MECHANISMS)
def test_each_row_names_its_two_sides(name: str) -> None:
    row = MECHANISMS[name]
    assert row.name == name
    assert row.server in {each.__name__ for each in SERVERS}
    if row.takes_token:
        assert row.client in {each.__name__ for each in TOKEN_CLIENTS}
        login = row.login(lambda: "hush-hush")
    else:
        assert row.client in {each.__name__ for each in PASSWORD_CLIENTS}
        login = row.login(PasswordUser("alice", Secret("hush-hush")))
    assert login.mechanism == name
    assert login.new_client() is not login.new_client()
    assert "hush" not in repr(login)


def test_the_rows_of_scram_are_those_of_its_mathematics() -> None:
    assert [name for name, row in MECHANISMS.items() if row.server == scram_server.__name__] == [*SCRAM_MECHANISMS]


@pytest.mark.parametrize(
    ("mechanism", "refused"),
    [("GSSAPI", "Kerberos (GSSAPI)"), ("AWS_MSK_IAM", "AWS_MSK_IAM"), ("plain", "plain"), ("SCRAM-SHA-1",) * 2],
)
def test_a_listener_rejects_what_has_no_row(mechanism: str, refused: str) -> None:
    clock = MockClock()
    parts = LoginParts(Credentials(), versions, clock, MockScheduler(clock))
    with pytest.raises(ConfigError) as caught:
        SaslListener("EXTERNAL", SaslConfig(enabled_mechanisms=("SCRAM-SHA-256", mechanism)), parts)
    assert caught.value.message == (
        f"Listener EXTERNAL: the SASL mechanism {refused} is not supported; "
        f"set sasl.enabled.mechanisms to some of {', '.join(MECHANISMS)}"
    )
    assert not NOT_OFFERED.keys() & MECHANISMS.keys()


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "GSSAPI", "plain"])
def test_brokers_reject_what_takes_no_password(mechanism: str) -> None:
    module = f"org.apache.kafka.{MECHANISMS['PLAIN'].login_module}"
    settings = {
        "sasl.enabled.mechanisms": f"PLAIN,{mechanism}",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"listener.name.plaintext.{mechanism.lower()}.sasl.jaas.config": (
            f'{module} required username="broker" password="hush-hush";'
        ),
    }
    with pytest.raises(ConfigError) as caught:
        broker_login_of(KafkaConfig.parse(settings), "PLAINTEXT")
    assert caught.value.message.startswith(
        f"sasl.mechanism.inter.broker.protocol={mechanism}: brokers log in to each other by "
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"
    )
    assert "OAUTHBEARER" not in caught.value.message.partition(":")[2]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_login_context_of_another_mechanism_is_rejected(mechanism: str) -> None:
    context = 'org.apache.kafka.OtherLoginModule required username="alice" password="hush-hush";'
    with pytest.raises(InvalidJaas) as caught:
        user_of_login_context(mechanism, Secret(context))
    expected = f"{mechanism} takes {MECHANISMS[mechanism].login_module}, not OtherLoginModule"
    assert str(caught.value) == expected
