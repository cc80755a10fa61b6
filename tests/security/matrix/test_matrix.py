"""Client libraries of Python through four protocols and five mechanisms, on brokers of both dispatch modes.

`make test` has a sample in which each protocol with each mechanism comes once; `make test-all` has all of it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.clients.admin import Admin, ScramAlteration, ScramMechanism
from barnabas.clients.settings.client_config import ClientConfig
from tests.security.conftest import Certificates
from tests.security.matrix import aiokafka_exam, barnabas_exam, confluent_kafka_exam, kafka_python_exam
from tests.security.matrix.login import DELEGATION_TOKEN, MECHANISMS, OAUTHBEARER, VALUES, Exam, Login
from tests.support.barnabas_process import BarnabasProcess
from tests.support.identity_provider import AUDIENCE, ISSUER, IdentityProvider, SigningKey, key_set
from tests.support.server_fixtures import SERVER_PROPERTIES

pytestmark = pytest.mark.timeout(600)

PASSWORD = "alice-knows-this"
TOKEN_SECRET = "the-secret-of-all-tokens"
LISTENERS = {"SSL": "SSL", "SASL_PLAINTEXT": "SASL", "SASL_SSL": "SASLTLS"}
"""Protocol -> listener. That of PLAINTEXT is the brokers' own."""
SCRAM_MECHANISMS = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
WAYS = [("PLAINTEXT", None), ("SSL", None), *itertools.product(SASL_PROTOCOLS, MECHANISMS)]

EXAMS: Mapping[str, Exam] = {
    "barnabas": barnabas_exam.sit,
    "confluent-kafka": confluent_kafka_exam.sit,
    "kafka-python": kafka_python_exam.sit,
    "aiokafka": aiokafka_exam.sit,
}
KNOW_DELEGATION_TOKENS = {"barnabas"}

MODES = ("inline", "queue")
"""How the broker dispatches requests."""
topic_numbers = itertools.count()


class Place(NamedTuple):
    """A running broker, and what its clients log in with."""

    broker: BarnabasProcess
    key: SigningKey
    certificates: Certificates

    def login(self, protocol: str, mechanism: str | None) -> Login:
        """How a client connects by this protocol and mechanism."""
        end_s = time.time() + 3000
        user, password = "alice", PASSWORD
        if mechanism == OAUTHBEARER:
            password = self.key.token(time.time(), exp=int(end_s))
        elif mechanism == DELEGATION_TOKEN:
            config = ClientConfig(
                security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username=user, sasl_password=PASSWORD
            )
            with Admin(self._address("SASL"), config=config) as admin:
                token = admin.create_delegation_token()
            user, password = token.information.token_id, token.password
        address = self._address(LISTENERS.get(protocol, "PLAINTEXT"))
        return Login(protocol, mechanism, address, user, password, end_s, str(self.certificates.trust_pem))

    def _address(self, listener: str) -> str:
        port = self.broker.port if listener == "PLAINTEXT" else self.broker.ports[listener]
        return f"{self.broker.host}:{port}"


@pytest.fixture(scope="module")
def provider() -> Iterator[tuple[IdentityProvider, SigningKey]]:
    key = SigningKey("first")
    with IdentityProvider(key_set(key)) as running:
        yield running, key


@pytest.fixture(scope="module")
def places(
    certificates: Certificates,
    provider: tuple[IdentityProvider, SigningKey],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Place]]:
    """A broker of each dispatch mode, with a listener of each protocol and all mechanisms."""
    identities, key = provider
    brokers: dict[str, BarnabasProcess] = {}
    with ExitStack() as started:
        for mode in MODES:
            brokers[mode] = start_broker(tmp_path_factory.mktemp(mode), certificates, identities, mode)
            started.callback(brokers[mode].stop)
        yield {mode: Place(broker, key, certificates) for mode, broker in brokers.items()}
    for broker in brokers.values():
        log = broker.log_text()
        for secret in (PASSWORD, TOKEN_SECRET, "eyJ"):
            assert secret not in log, "a secret is in the log"


def start_broker(
    directory: Path, certificates: Certificates, identities: IdentityProvider, mode: str
) -> BarnabasProcess:
    properties = {
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", *(f"{listener}:{protocol}" for protocol, listener in LISTENERS.items())]
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server_pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.trust_pem),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "delegation.token.secret.key": TOKEN_SECRET,
        "transaction.state.log.num.partitions": "3",
        "inline.requests.enable": str(mode == "inline").lower(),
        "num.network.threads": "2",
    }
    for protocol in SASL_PROTOCOLS:
        prefix = f"listener.name.{LISTENERS[protocol].lower()}"
        properties |= {
            f"{prefix}.plain.sasl.jaas.config": (
                f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'
            ),
            f"{prefix}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": identities.url,
            f"{prefix}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{prefix}.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
        }
    broker = BarnabasProcess(directory, SERVER_PROPERTIES | properties)
    broker.more_listeners = tuple(f"{listener}://127.0.0.1:0" for listener in LISTENERS.values())
    broker.start()
    with Admin(f"{broker.host}:{broker.port}") as admin:
        admin.alter_user_scram_credentials([ScramAlteration("alice", each, PASSWORD) for each in SCRAM_MECHANISMS])
    return broker


def check(place: Place, library: str, protocol: str, mechanism: str | None) -> None:
    """Let a library sit its exam, and look for the offsets that its group has committed."""
    topic = f"{library}-{next(topic_numbers)}"
    assert EXAMS[library](place.login(protocol, mechanism), topic) == VALUES
    with Admin(f"{place.broker.host}:{place.broker.port}") as admin:
        (committed,) = admin.list_group_offsets(topic).values()
        assert committed.offset >= len(VALUES)


def knows(library: str, mechanism: str | None) -> bool:
    return mechanism != DELEGATION_TOKEN or library in KNOW_DELEGATION_TOKENS


def sample() -> list[tuple[str, str, str, str | None]]:
    """Each way once, by the libraries and the dispatch modes in turn; a way that a library does not know is ours."""
    chosen = []
    for number, (library, (protocol, mechanism)) in enumerate(zip(itertools.cycle(EXAMS), WAYS, strict=False)):
        who = library if knows(library, mechanism) else "barnabas"
        # Four libraries in turn, so the mode changes after each round too: each library meets both modes.
        chosen.append((MODES[(number + number // len(EXAMS)) % 2], who, protocol, mechanism))
    return chosen


@pytest.mark.parametrize(("mode", "library", "protocol", "mechanism"), sample())
def test_a_sample(places: Mapping[str, Place], mode: str, library: str, protocol: str, mechanism: str | None) -> None:
    check(places[mode], library, protocol, mechanism)


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
@pytest.mark.parametrize("library", EXAMS)
@pytest.mark.parametrize("mode", MODES)
def test_libraries_in_python(
    places: Mapping[str, Place], mode: str, library: str, protocol: str, mechanism: str | None
) -> None:
    if not knows(library, mechanism):
        pytest.skip("the library has no login by delegation token")
    check(places[mode], library, protocol, mechanism)
