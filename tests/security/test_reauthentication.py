"""Sessions that end (`connections.max.reauth.ms`, KIP-368): clients log in again on their connections, or lose them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.admin import Admin, ScramAlteration, ScramMechanism
from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.producer.producer import Producer
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.security.conftest import PASSWORD, SASL_LISTENERS, Certificates, sasl_properties
from tests.security.secured_clients import address, client_properties, login
from tests.support.apache_kafka import endless_tool, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_metrics import metric_value
from tests.support.raw_client import ConnectionClosed
from tests.support.sasl_exchange import SaslRawClient
from tests.support.server_fixtures import SERVER_PROPERTIES

LIFE_MS = 2_000
"""Clients log in again after 1.7 seconds; a broker lets nobody do so more often than once a second."""
LONG_LIFE_MS = 3_600_000
SECONDS = 120
RENEWED = "kafka_server_socket_server_metrics_successful_reauthentication_total"
EXPIRED = "kafka_server_socket_server_metrics_expired_connections_killed_count"


@pytest.fixture(scope="module", params=["inline", "queue"])
def short_sessions(
    request: pytest.FixtureRequest, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BarnabasProcess]:
    """A broker whose sessions last two seconds; those of one mechanism of one listener an hour."""
    broker = BarnabasProcess(
        tmp_path_factory.mktemp("sessions"),
        SERVER_PROPERTIES
        | {name: value for name, value in sasl_properties(certificates).items() if ".name.re" not in name}
        | {
            "connections.max.reauth.ms": str(LIFE_MS),
            "listener.name.sasl.scram-sha-256.connections.max.reauth.ms": str(LONG_LIFE_MS),
            "metrics.listen": "127.0.0.1:0",
            "inline.requests.enable": str(request.param == "inline").lower(),
        },
    )
    broker.more_listeners = tuple(f"{name}://127.0.0.1:0" for name in SASL_LISTENERS)
    broker.start()
    yield broker
    broker.stop()


def test_a_session_ends_unless_it_is_renewed(short_sessions: BarnabasProcess) -> None:
    place = (short_sessions.host, short_sessions.ports["SASL"])
    expired = metric_value(short_sessions.ports["http"], EXPIRED)
    with SaslRawClient(short_sessions, address=place) as client:
        assert client.log_in("alice", PASSWORD).session_lifetime_ms == LIFE_MS
        answer = client.log_in("alice", PASSWORD)
        assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.NONE, LIFE_MS)
        time.sleep(1.1 * LIFE_MS / 1000)
        with pytest.raises((ConnectionClosed, OSError)):
            client.call(MetadataRequest(topics=[]), 12, MetadataResponse)
    assert metric_value(short_sessions.ports["http"], EXPIRED) >= expired + 1


def test_another_user_cannot_take_over_a_connection(short_sessions: BarnabasProcess) -> None:
    with SaslRawClient(short_sessions, address=(short_sessions.host, short_sessions.ports["SASL"])) as client:
        client.log_in("alice", PASSWORD)
        answer = client.log_in("bob", "bob-knows-this")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
        assert client.is_closed_by_broker()


def test_our_clients_log_in_again(short_sessions: BarnabasProcess, certificates: Certificates, topic: str) -> None:
    """A writer and a reader work on through many sessions; no record is lost or written twice."""
    settings = login(certificates, "SASLTLS")
    servers = address(short_sessions, "SASLTLS")
    renewed = metric_value(short_sessions.ports["http"], RENEWED)
    values: set[bytes | None] = set()
    written = 0
    deadline = time.monotonic() + SECONDS
    with (
        Producer(servers, **settings) as producer,
        Consumer(servers, group_id=topic, auto_offset_reset="earliest", **settings) as consumer,
    ):
        consumer.subscribe([topic])
        while metric_value(short_sessions.ports["http"], RENEWED) < renewed + 3:
            assert time.monotonic() < deadline, "the clients do not log in again"
            for _ in range(10):
                producer.send(topic, value=b"%d" % written, partition=0).result(SECONDS)
                written += 1
            values.update(record.value for record in consumer.poll(100))
        while len(values) < written:
            assert time.monotonic() < deadline, f"{len(values)} of {written} records are read"
            values.update(record.value for record in consumer.poll(500))
    assert values == {b"%d" % number for number in range(written)}
    with SaslRawClient(short_sessions) as client:
        assert client.end_offset(topic) == written


@pytest.mark.slow
def test_librdkafka_works_on(short_sessions: BarnabasProcess, topic: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    renewed_or_closed = (RENEWED, EXPIRED)
    before = sum(metric_value(short_sessions.ports["http"], name) for name in renewed_or_closed)
    settings: dict[str, Any] = {
        "bootstrap.servers": f"{short_sessions.host}:{short_sessions.ports['SASL']}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
        "enable.idempotence": True,
    }
    producer = confluent_kafka.Producer(settings)
    deadline = time.monotonic() + SECONDS
    written = 0
    while sum(metric_value(short_sessions.ports["http"], name) for name in renewed_or_closed) < before + 3:
        assert time.monotonic() < deadline, "no session ends"
        producer.produce(topic, b"%d" % written, partition=0)
        assert producer.flush(SECONDS) == 0
        written += 1
    with SaslRawClient(short_sessions) as client:
        assert client.fetch(topic, 0).high_watermark == written


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_java_logs_in_again(short_sessions: BarnabasProcess, tmp_path: Path, topic: str, mechanism: str) -> None:
    need_apache_kafka()
    if mechanism != "PLAIN":
        with Admin(f"{short_sessions.host}:{short_sessions.port}") as admin:
            admin.alter_user_scram_credentials([ScramAlteration("alice", ScramMechanism.SCRAM_SHA_512, PASSWORD)])
    settings = client_properties(tmp_path / "client.properties", mechanism, "alice", PASSWORD)
    renewed = metric_value(short_sessions.ports["http"], RENEWED)
    address_of_sasl = f"{short_sessions.host}:{short_sessions.ports['SASL']}"
    place = ("--bootstrap-server", address_of_sasl, "--topic", topic, "--producer.config", str(settings))
    deadline = time.monotonic() + SECONDS
    producer = "org.apache.kafka.tools.VerifiableProducer"
    with endless_tool(producer, *place, "--throughput", "10", directory=tmp_path) as answers:
        while metric_value(short_sessions.ports["http"], RENEWED) < renewed + 3:
            assert time.monotonic() < deadline, "the producer does not log in again"
            assert "producer_send_error" not in next(answers, "producer_send_error: it has ended")
