"""Brokers and their controller reach each other over TLS and SASL: one broker in each way, and a cluster of three."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.producer.producer import Producer
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.testing.znode_server import ZnodeServer
from tests.security.conftest import Certificates
from tests.support.barnabas_process import BarnabasProcess
from tests.support.cluster_state import in_sync_replicas
from tests.support.server_process import ServerFailed, free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(400)

PASSWORD = "brokers-know-this"
SECONDS = 60
eventually = partial(wait_until, seconds=SECONDS)
LOGIN_MODULE = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule"}


def login_context(mechanism: str, password: str = PASSWORD) -> str:
    """The users of PLAIN, and the user as whom this broker logs in."""
    module = f"org.apache.kafka.common.security.{LOGIN_MODULE[mechanism]}"
    users = f' user_broker="{PASSWORD}"' if mechanism == "PLAIN" else ""
    return f'{module} required username="broker" password="{password}"{users};'


def properties(certificates: Certificates, protocol: str, mechanism: str) -> dict[str, str]:
    """The settings of a broker whose listener for brokers, BROKERS, has this protocol."""
    return {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,BROKERS:{protocol},CONTROL:SSL",
        "inter.broker.listener.name": "BROKERS",
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"listener.name.brokers.{mechanism.lower()}.sasl.jaas.config": login_context(mechanism),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server_pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.trust_pem),
        "ssl.client.auth": "required",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }


def client_settings(certificates: Certificates) -> dict[str, Any]:
    """The settings of our clients for the listener BROKERS of the cluster: SASL_SSL, SCRAM-SHA-512."""
    return {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": str(certificates.trust_pem),
        "ssl_keystore_location": str(certificates.server_pem),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "broker",
        "sasl_password": PASSWORD,
    }


@pytest.mark.parametrize(
    ("protocol", "mechanism", "control_plane"),
    [
        ("SSL", "PLAIN", False),
        ("SASL_PLAINTEXT", "PLAIN", True),
        ("SASL_SSL", "SCRAM-SHA-512", False),
    ],
)
def test_the_controller_of_one_broker(
    protocol: str, mechanism: str, control_plane: bool, certificates: Certificates, tmp_path: Path
) -> None:
    control = {"control.plane.listener.name": "CONTROL"} if control_plane else {}
    broker = BarnabasProcess(tmp_path, properties(certificates, protocol, mechanism) | control)
    broker.more_listeners = ("BROKERS://127.0.0.1:0", *(["CONTROL://127.0.0.1:0"] if control_plane else []))
    with broker.running(), Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("orders", 2, 1)])
        with Producer(broker.bootstrap_servers, transactional_id="t") as producer:
            producer.init_transactions()
            with producer.transaction():  # its marker goes over BROKERS
                producer.send("orders", b"one", partition=1)
        assert values_of(broker.bootstrap_servers, "orders", 1) == [b"one"]
    assert PASSWORD not in broker.log_text()


@pytest.fixture
def three(certificates: Certificates, tmp_path: Path) -> Iterator[list[BarnabasProcess]]:
    """Three brokers over SASL_SSL with an authorizer, whose super user is the user of brokers."""
    store = ZnodeServer()
    brokers = []
    try:
        for broker_id in range(3):
            broker = BarnabasProcess(
                tmp_path / f"broker-{broker_id}",
                properties(certificates, "SASL_SSL", "SCRAM-SHA-512")
                | {
                    "broker.id": str(broker_id),
                    "zookeeper.connect": store.address,
                    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                    "super.users": "User:broker",
                    "default.replication.factor": "3",
                    "min.insync.replicas": "2",
                    "offsets.topic.replication.factor": "3",
                    "transaction.state.log.replication.factor": "3",
                    "transaction.state.log.min.isr": "2",
                },
                port=free_port(),
            )
            broker.more_listeners = (f"BROKERS://127.0.0.1:{free_port()}",)
            brokers.append(broker)
            broker.start()
        yield brokers
    finally:
        for broker in brokers:
            broker.kill()
        store.close()


def test_three_brokers_replicate_and_lose_nothing(three: list[BarnabasProcess], certificates: Certificates) -> None:
    servers = ",".join(f"{broker.host}:{broker.ports['BROKERS']}" for broker in three)
    settings = client_settings(certificates)
    written = [b"%d" % number for number in range(200)]
    with Admin(servers, config=ClientConfig(**settings)) as admin:
        eventually(lambda: len(admin.describe_cluster().nodes) == 3)
        admin.create_topics([NewTopic("orders", 1, 3)])
        eventually(lambda: in_sync_replicas(admin, ["orders"]) == 3)
        with Producer(servers, transactional_id="t", **settings) as producer:
            producer.init_transactions()
            with producer.transaction():
                for value in written[:100]:
                    producer.send("orders", value)
            leader = admin.describe_topics(["orders"])["orders"].partitions[0].leader
            assert leader is not None
            three[leader].kill()
            with producer.transaction():
                for value in written[100:]:
                    producer.send("orders", value)
        three[leader].start()
        eventually(lambda: in_sync_replicas(admin, ["orders"]) == 3)
        assert values_of(servers, "orders", 200, **settings) == written
    for broker in three:
        assert PASSWORD not in broker.log_text()
        assert "name it in super.users" not in broker.log_text()  # User:broker is


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        (
            {"sasl.mechanism.inter.broker.protocol": "GSSAPI"},
            "protocol=GSSAPI: brokers log in",
        ),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-512"}, "must be included in sasl.enabled.mechanisms"),
        (
            {"listener.name.brokers.plain.sasl.jaas.config": f'x.PlainLoginModule required user_a="{PASSWORD}";'},
            "PlainLoginModule needs the options username and password",
        ),
        ({"ssl.truststore.location": "/no/such/file.pem"}, "/no/such/file.pem"),
    ],
)
def test_a_broker_that_could_not_log_in_does_not_start(
    changed: dict[str, str], error: str, certificates: Certificates, tmp_path: Path
) -> None:
    broker = BarnabasProcess(tmp_path, properties(certificates, "SASL_SSL", "PLAIN") | changed)
    broker.more_listeners = ("BROKERS://127.0.0.1:0",)
    with pytest.raises(ServerFailed) as caught:
        broker.start()
    assert error in str(caught.value)
    assert PASSWORD not in str(caught.value)


def values_of(servers: str, topic: str, count: int, **settings: Any) -> list[bytes | None]:
    """Read so many committed records."""
    found: list[bytes | None] = []
    deadline = time.monotonic() + SECONDS
    with Consumer(
        servers, group_id="readers", auto_offset_reset="earliest", isolation_level="read_committed", **settings
    ) as consumer:
        consumer.subscribe([topic])
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records"
            found += [record.value for record in consumer.poll(1.0)]
    return found
