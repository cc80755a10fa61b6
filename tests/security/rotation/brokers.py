"""Starts the brokers of a Place: one of ours, three of ours that share a store, or one of Apache Kafka 3.9.

Used by the tests and the campaign, on their thread. Three brokers reach each other over SASL_SSL too, by a listener of
their own, BROKERS, whose certificates change with the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from barnabas.testing.znode_server import ZnodeServer
from tests.security.conftest import Certificates
from tests.security.rotation.place import CLIENTS, SHA_512, SHORT, TOKEN_SECRET, Place, properties
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_process import free_port

BROKERS = "BROKERS"
_BROKERS_PASSWORD = "brokers-know-this"


@contextmanager
def one_broker(certificates: Certificates, directory: Path, session_ms: int, mode: str = "inline") -> Iterator[Place]:
    """Run one broker of ours, in a dispatch mode."""
    key_store = certificates.server.write_pem(directory / "server.pem")
    inline = {"inline.requests.enable": str(mode == "inline").lower(), "num.network.threads": "2"}
    broker = BarnabasProcess(directory / "broker", properties(certificates, key_store, session_ms) | inline)
    broker.more_listeners = tuple(f"{listener}://127.0.0.1:0" for listener in (CLIENTS, SHORT))
    try:
        broker.start()
        yield Place([broker], lambda _, listener: broker.ports[listener], certificates, directory)
    finally:
        broker.close()
    _check_log(broker)


@contextmanager
def three_brokers(certificates: Certificates, directory: Path, session_ms: int) -> Iterator[Place]:
    """Run a cluster of ours."""
    store = ZnodeServer()
    brokers: list[BarnabasProcess] = []
    try:
        for broker_id in range(3):
            key_store = certificates.server.write_pem(directory / f"server-{broker_id}.pem")
            settings = properties(certificates, key_store, session_ms) | _cluster_properties(store.address, broker_id)
            broker = BarnabasProcess(directory / f"broker-{broker_id}", settings)
            broker.more_listeners = tuple(f"{listener}://127.0.0.1:0" for listener in (BROKERS, CLIENTS, SHORT))
            brokers.append(broker)
            broker.start()
        yield Place(
            brokers,
            lambda number, listener: brokers[number].ports[listener],
            certificates,
            directory,
            replication_factor=3,
            tls_listeners=(CLIENTS, SHORT, BROKERS),
        )
        for broker in reversed(brokers):
            broker.stop()
    finally:
        for broker in brokers:
            broker.kill()
        store.close()
    for broker in brokers:
        _check_log(broker)


def _cluster_properties(store: str, broker_id: int) -> dict[str, str]:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "broker.id": str(broker_id),
        "zookeeper.connect": store,
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", *(f"{listener}:SASL_SSL" for listener in (BROKERS, CLIENTS, SHORT))]
        ),
        "inter.broker.listener.name": BROKERS,
        "sasl.mechanism.inter.broker.protocol": SHA_512,
        f"listener.name.{BROKERS.lower()}.{SHA_512.lower()}.sasl.jaas.config": (
            f'{module} required username="broker" password="{_BROKERS_PASSWORD}";'
        ),
        "super.users": "User:ANONYMOUS;User:broker",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        "controlled.shutdown.retry.backoff.ms": "100",
    }


def _check_log(broker: BarnabasProcess) -> None:
    log = broker.log_text()
    for secret in (TOKEN_SECRET, _BROKERS_PASSWORD, "PRIVATE KEY"):
        assert secret not in log, "a secret is in the log"


@contextmanager
def apache_kafka(certificates: Certificates, directory: Path, session_ms: int) -> Iterator[Place]:
    """Run one broker of Apache Kafka 3.9."""
    ports = {listener: free_port() for listener in ("PLAINTEXT", CLIENTS, SHORT)}
    key_store = certificates.server.write_pem(directory / "server.pem")
    listeners = ",".join(f"{listener}://127.0.0.1:{port}" for listener, port in ports.items())
    settings = properties(certificates, key_store, session_ms) | {"listeners": listeners}
    kafka = ApacheKafka(directory / "kafka", settings)
    kafka.port = ports["PLAINTEXT"]
    try:
        kafka.start()
        yield Place([kafka], lambda _, listener: ports[listener], certificates, directory)
    finally:
        kafka.close()
