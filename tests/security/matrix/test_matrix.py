"""Client libraries through four protocols and five mechanisms, on brokers of both dispatch modes.

`make test` has a sample in which each protocol with each mechanism comes once in each dispatch mode, by the libraries
in turn; `make test-all` has all of it. The libraries for other languages sit their exams in one program each, which all
cases of the module share.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.clients.admin import Admin, ScramAlteration, ScramMechanism
from barnabas.clients.settings.client_config import ClientConfig
from tests.groups import member_builds
from tests.security.conftest import Certificates
from tests.security.matrix import aiokafka_exam, barnabas_exam, confluent_kafka_exam, kafka_python_exam, kcat_exam
from tests.security.matrix.exam_program import ExamProgram
from tests.security.matrix.login import DELEGATION_TOKEN, MECHANISMS, OAUTHBEARER, VALUES, Exam, Login
from tests.support.barnabas_process import BarnabasProcess
from tests.support.identity_provider import AUDIENCE, ISSUER, IdentityProvider, SigningKey, key_set
from tests.support.maven import counterparts_needed
from tests.support.server_fixtures import SERVER_PROPERTIES

pytestmark = pytest.mark.timeout(600)

PASSWORD = "alice-knows-this"
TOKEN_SECRET = "the-secret-of-all-tokens"
LISTENERS = {"SSL": "SSL", "SASL_PLAINTEXT": "SASL", "SASL_SSL": "SASLTLS"}
"""Protocol -> listener. That of PLAINTEXT is the brokers' own."""
SCRAM_MECHANISMS = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")


class Way(NamedTuple):
    """A security protocol with one of its mechanisms; None without SASL."""

    protocol: str
    mechanism: str | None


WAYS = [
    Way("PLAINTEXT", None),
    Way("SSL", None),
    *itertools.starmap(Way, itertools.product(SASL_PROTOCOLS, MECHANISMS)),
]


class Library(NamedTuple):
    """A client library: its exam in this process, or the command of the program that sits it."""

    name: str
    exam: Exam | None = None
    command: Callable[[], list[str]] | None = None
    """Raises CounterpartMissing."""
    has_token_login: bool = False
    """Whether it can log in by delegation token, which is SCRAM with the extension tokenauth."""
    has_bearer_login: bool = True
    """Whether it can log in by a token of OAUTHBEARER that it is given."""

    def has(self, way: Way) -> bool:
        """Whether it has the login of a way."""
        missing = {DELEGATION_TOKEN: not self.has_token_login, OAUTHBEARER: not self.has_bearer_login}
        return not missing.get(way.mechanism or "", False)


LIBRARIES = (
    Library("barnabas", barnabas_exam.sit, has_token_login=True),
    Library("confluent-kafka", confluent_kafka_exam.sit),
    Library("kafka-python", kafka_python_exam.sit),
    Library("aiokafka", aiokafka_exam.sit),
    Library("kcat", kcat_exam.sit, has_bearer_login=False),
    Library("java-3.9", command=partial(member_builds.java_login_exam, "3.9"), has_token_login=True),
    Library("java-4", command=partial(member_builds.java_login_exam, "4"), has_token_login=True),
    Library("franz-go", command=member_builds.franz_go_login_exam, has_token_login=True),
    Library("kafkajs", command=member_builds.kafkajs_login_exam),
)
NO_SUCH_LOGIN = pytest.mark.skip(reason="the library has no such login")

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


class Exams:
    """The exams of all libraries. A program is built and started when its library's first exam comes."""

    def __init__(self, directory: Path, programs: ExitStack) -> None:
        """directory: for what programs say. programs: ended by its owner."""
        self._directory = directory
        self._programs = programs
        self._started: dict[str, ExamProgram] = {}

    def of(self, library: Library) -> Exam:
        """Return a library's exam. Skips the test, or fails it under CI, if its program cannot be had."""
        if library.exam is not None:
            return library.exam
        if library.name not in self._started:
            assert library.command is not None
            with counterparts_needed():
                command = library.command()
            program = ExamProgram(command, self._directory / f"{library.name}.log")
            self._started[library.name] = self._programs.enter_context(program)
        return self._started[library.name].sit


@pytest.fixture(scope="module")
def exams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exams]:
    with ExitStack() as programs:
        yield Exams(tmp_path_factory.mktemp("programs"), programs)


def check(place: Place, exam: Exam, library: Library, way: Way) -> None:
    """Let a library sit its exam, and look for the offsets that its group has committed."""
    topic = f"{library.name}-{next(topic_numbers)}"
    assert exam(place.login(way.protocol, way.mechanism), topic) == VALUES
    with Admin(f"{place.broker.host}:{place.broker.port}") as admin:
        (committed,) = admin.list_group_offsets(topic).values()
        assert committed.offset >= len(VALUES)


def case(mode: str, library: Library, way: Way) -> Any:
    """A case of the table: skipped if the library has no such login."""
    name = "-".join(filter(None, (mode, library.name, way.protocol, way.mechanism)))
    return pytest.param(mode, library, way, id=name, marks=() if library.has(way) else NO_SUCH_LOGIN)


def sample() -> list[Any]:
    """Each way once in each mode, by the libraries in turn; for a way that a library does not have, the next one."""
    chosen = []
    libraries = itertools.cycle(LIBRARIES)
    for mode, way in itertools.product(MODES, WAYS):
        chosen.append(case(mode, next(each for each in libraries if each.has(way)), way))
    # Always: its SCRAM has a fault that Kafka lets pass.
    kcat = next(each for each in LIBRARIES if each.name == "kcat")
    always = case("inline", kcat, Way("SASL_PLAINTEXT", "SCRAM-SHA-256"))
    return chosen if always.id in [each.id for each in chosen] else [*chosen, always]


@pytest.mark.parametrize(("mode", "library", "way"), sample())
def test_a_sample(places: Mapping[str, Place], exams: Exams, mode: str, library: Library, way: Way) -> None:
    check(places[mode], exams.of(library), library, way)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "library", "way"), [case(*each) for each in itertools.product(MODES, LIBRARIES, WAYS)]
)
def test_every_library(places: Mapping[str, Place], exams: Exams, mode: str, library: Library, way: Way) -> None:
    check(places[mode], exams.of(library), library, way)
