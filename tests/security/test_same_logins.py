"""Every login script on ours and on Apache Kafka 3.9: the same answers, and the same connections closed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.clients.admin import Admin, ScramAlteration
from barnabas.protocol.errors import ErrorCode
from tests.security.conftest import SecuredKafka
from tests.security.login_scripts import PASSWORD, SCRIPTS, USER, run
from tests.support.barnabas_process import BarnabasProcess
from tests.support.sasl_exchange import MECHANISMS, SaslRawClient, await_login
from tests.support.server_fixtures import SERVER_PROPERTIES

pytestmark = [pytest.mark.java, pytest.mark.slow]

_NO_BASE64 = "Apache Kafka closes without an answer when a proof is no base64; ours answers as to others"
_PARSED = "Apache Kafka parses a request that comes instead of a token, and answers it with an error; ours closes"
_AGAIN = "Apache Kafka sends no list of mechanisms when a later login names an unknown one; ours does, then closes too"
DIFFERENT = {
    "SCRAM-SHA-512, final message: another proof": _NO_BASE64,
    "SCRAM-SHA-256, final message: an empty proof": _NO_BASE64,
    "SCRAM-SHA-512, final message: an empty proof": _NO_BASE64,
    "SCRAM, first message: the same authorization id": _PARSED,
    "a request after the handshake": _PARSED,
    "ApiVersions after the handshake": _PARSED,
    "a second login without a token": _PARSED,
    "a second login by an unknown mechanism": _AGAIN,
}
"""Script -> how ours differs (docs/decisions/0046). A script that does not differ any more fails."""


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasProcess]:
    """A broker with the users and settings of the other one."""
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        ),
        "listener.name.sasl.scram-sha-256.connections.max.reauth.ms": "3600000",
    }
    broker = BarnabasProcess(tmp_path_factory.mktemp("same-logins"), SERVER_PROPERTIES | properties)
    broker.more_listeners = ("SASL://127.0.0.1:0",)
    broker.start()
    with Admin(f"{broker.host}:{broker.port}") as admin:
        admin.alter_user_scram_credentials([ScramAlteration(USER, each, PASSWORD) for each in MECHANISMS])
    for mechanism in MECHANISMS:
        await_login(broker, USER, PASSWORD, mechanism, ErrorCode.NONE)
    yield broker
    broker.stop()
    assert PASSWORD not in broker.log_text()


@pytest.mark.parametrize("name", SCRIPTS)
def test_same_outcome(ours: BarnabasProcess, kafka: SecuredKafka, name: str) -> None:
    with SaslRawClient(ours, address=(ours.host, ours.ports["SASL"])) as client:
        found = run(SCRIPTS[name], client)
    host, port = kafka.addresses["SASL_PLAINTEXT"].split(":")
    with SaslRawClient(kafka.broker, address=(host, int(port))) as client:
        expected = run(SCRIPTS[name], client)
    if name in DIFFERENT:
        assert found != expected, "it does not differ any more"
    else:
        assert found == expected
