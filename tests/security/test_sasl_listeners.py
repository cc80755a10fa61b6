"""SASL listeners of a broker: logins by PLAIN and SCRAM, what comes before them, and what is not told or logged."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, QuotaEntity, ScramAlteration, ScramCredential
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest, SaslHandshakeResponse
from tests.security.conftest import PASSWORD, SASL_LISTENERS, Certificates
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_log import wait_for_log_line
from tests.support.raw_client import SECONDS
from tests.support.sasl_exchange import MECHANISMS, SaslRawClient, await_login, plain_token
from tests.support.server_fixtures import SERVER_PROPERTIES
from tests.support.server_process import ServerFailed


@pytest.fixture
def client(sasl_server: BarnabasProcess) -> Iterator[SaslRawClient]:
    with SaslRawClient(sasl_server, address=(sasl_server.host, sasl_server.ports["SASL"])) as connected:
        yield connected


def test_a_client_works_after_its_login(client: SaslRawClient, topic: str) -> None:
    assert client.log_in("alice", PASSWORD).error_code == ErrorCode.NONE
    client.create_topic(topic)
    assert [client.produce_values(topic, b"a value of one's own") for _ in range(5)] == list(range(5))
    assert bytes(client.fetch(topic, 0).records or b"").count(b"a value of one's own") == 5


def test_a_login_in_bare_frames(client: SaslRawClient) -> None:
    assert client.handshake("PLAIN", 0).error_code == ErrorCode.NONE
    client.send_raw(plain_token("alice", PASSWORD))
    assert client.receive_frame() == b""
    client.call(MetadataRequest(topics=None), 1, MetadataResponse)


def test_requests_may_follow_the_last_token_at_once(client: SaslRawClient) -> None:
    client.handshake("PLAIN")
    token = client.encode(SaslAuthenticateRequest(plain_token("bob", "bob-knows-this")), 2, 1)
    requests = [client.encode(MetadataRequest(topics=[]), 1, number) for number in range(2, 6)]
    client.socket.sendall(token + b"".join(requests))
    client.receive_frame()
    for number in range(2, 6):
        client.receive(MetadataResponse, 1, number)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_answered_and_closed(
    sasl_server: BarnabasProcess, client: SaslRawClient, mechanism: str
) -> None:
    answer = client.log_in("alice", "wrong", mechanism)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_closed_by_broker()
    wait_for_log_line(sasl_server, f"(SASL mechanism {mechanism}: ")


def test_a_request_before_the_login_closes_the_connection(client: SaslRawClient) -> None:
    client.send(MetadataRequest(topics=None), 1)
    assert client.is_closed_by_broker()


def test_a_frame_above_the_limit_closes_the_connection(client: SaslRawClient) -> None:
    client.socket.sendall(struct.pack(">i", 524_289) + b"x")
    assert client.is_closed_by_broker()


def test_a_frame_at_the_limit_is_read(client: SaslRawClient) -> None:
    """After the handshake v0 it is a token; the answer to a wrong one is that the connection closes."""
    client.handshake("PLAIN", 0)
    client.send_raw(b"x" * 524_288)
    assert client.is_closed_by_broker()


def test_the_limit_is_that_of_requests_after_the_login(client: SaslRawClient, topic: str) -> None:
    client.log_in("alice", PASSWORD)
    client.create_topic(topic)
    assert client.produce_values(topic, b"v" * 900_000) == 0


def test_a_mechanism_that_is_not_enabled(client: SaslRawClient) -> None:
    answer = client.call(SaslHandshakeRequest("GSSAPI"), 1, SaslHandshakeResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("listener", SASL_LISTENERS)
def test_librdkafka(sasl_server: BarnabasProcess, certificates: Certificates, listener: str, topic: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    settings = {
        "bootstrap.servers": f"localhost:{sasl_server.ports[listener]}",
        "security.protocol": SASL_LISTENERS[listener],
        "ssl.ca.location": str(certificates.trust_pem),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
        "broker.address.family": "v4",
    }
    producer = confluent_kafka.Producer(settings)
    for number in range(100):
        producer.produce(topic, str(number).encode())
    assert producer.flush(SECONDS) == 0
    consumer = confluent_kafka.Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < 100:
        found += [message.value() for message in consumer.consume(100, SECONDS)]
    consumer.close()
    assert sorted(map(int, found)) == list(range(100))


# -- SCRAM


@pytest.fixture
def user(sasl_server: BarnabasProcess) -> str:
    """A new user, with credentials of both mechanisms, that can log in."""
    name = f"user-{uuid.uuid4().hex}"
    with Admin(f"{sasl_server.host}:{sasl_server.port}") as admin:
        admin.alter_user_scram_credentials([ScramAlteration(name, each, PASSWORD) for each in MECHANISMS])
        assert admin.describe_user_scram_credentials([name]) == {
            name: tuple(ScramCredential(each, 4096) for each in MECHANISMS)
        }
    for mechanism in MECHANISMS:
        await_login(sasl_server, name, PASSWORD, mechanism, ErrorCode.NONE)
    return name


def test_passwords_change_and_end(sasl_server: BarnabasProcess, user: str) -> None:
    first, second = MECHANISMS
    with Admin(f"{sasl_server.host}:{sasl_server.port}") as admin:
        admin.alter_client_quotas({QuotaEntity(user): {"producer_byte_rate": 1e9}})
        admin.alter_user_scram_credentials([ScramAlteration(user, first, "another", 8192)])
        await_login(sasl_server, user, "another", first, ErrorCode.NONE)
        await_login(sasl_server, user, PASSWORD, first, ErrorCode.SASL_AUTHENTICATION_FAILED)
        await_login(sasl_server, user, PASSWORD, second, ErrorCode.NONE)
        assert admin.describe_user_scram_credentials([user])[user][0].iterations == 8192
        admin.alter_user_scram_credentials([ScramAlteration(user, each, None) for each in MECHANISMS])
        await_login(sasl_server, user, "another", first, ErrorCode.SASL_AUTHENTICATION_FAILED)
        assert admin.describe_user_scram_credentials([user]) == {}
        # Credentials and quotas of a user have one znode, and do not disturb each other.
        assert admin.describe_client_quotas(QuotaEntity(user)) == {QuotaEntity(user): {"producer_byte_rate": 1e9}}


def test_credentials_outlive_a_restart(tmp_path: Path, certificates: Certificates) -> None:
    names = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"}
    broker = BarnabasProcess(
        tmp_path, SERVER_PROPERTIES | names | {"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}
    )
    broker.more_listeners = ("SASL://127.0.0.1:0",)
    broker.start()
    with Admin(f"{broker.host}:{broker.port}") as admin:
        admin.alter_user_scram_credentials([ScramAlteration("ca=rol,", MECHANISMS[1], PASSWORD)])
    broker.stop()
    broker.start()
    # Read before the first connection is accepted, so there is nothing to wait for.
    with SaslRawClient(broker, address=(broker.host, broker.ports["SASL"])) as connected:
        assert connected.log_in("ca=rol,", PASSWORD, "SCRAM-SHA-512").error_code == ErrorCode.NONE
    broker.stop()
    assert PASSWORD not in broker.log_text()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_kafka_python(sasl_server: BarnabasProcess, user: str, mechanism: str, topic: str) -> None:
    kafka = pytest.importorskip("kafka")
    producer = kafka.KafkaProducer(
        bootstrap_servers=f"{sasl_server.host}:{sasl_server.ports['SASL']}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=user,
        sasl_plain_password=PASSWORD,
    )
    assert producer.send(topic, b"v").get(2 * SECONDS).offset == 0
    producer.close()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_librdkafka_by_scram(sasl_server: BarnabasProcess, user: str, mechanism: str, topic: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": f"{sasl_server.host}:{sasl_server.ports['SASL']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": PASSWORD,
        }
    )
    producer.produce(topic, b"v")
    assert producer.flush(2 * SECONDS) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "Kerberos"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "OAUTHBEARER needs the keys that sign its tokens"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "listener.name.sasl.plain.sasl.jaas.config"),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl.plain.sasl.jaas.config": f'x.PlainLoginModule required user_a="{PASSWORD}"',
            },
            "not terminated by semi-colon",
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl.plain.sasl.jaas.config": f'x.OtherLoginModule required user_a="{PASSWORD}";',
            },
            "PlainLoginModule",
        ),
    ],
)
def test_settings_that_protect_nothing_stop_the_start(tmp_path: Path, settings: dict[str, str], message: str) -> None:
    names = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"}
    broker = BarnabasProcess(tmp_path, SERVER_PROPERTIES | names | settings)
    broker.more_listeners = ("SASL://127.0.0.1:0",)
    with pytest.raises(ServerFailed):
        broker.start()
    assert message in broker.log_text()
    assert PASSWORD not in broker.log_text()
