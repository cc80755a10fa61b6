"""Clients of secured brokers: ours in every role, the command line, and the settings of Java's."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from barnabas.clients.admin import Admin
from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.producer.producer import Producer
from barnabas.clients.settings.client_config import ClientConfig
from tests.security.conftest import PASSWORD, SASL_LISTENERS, Certificates
from tests.support.barnabas_process import BarnabasProcess

SECONDS = 60
"""For what takes milliseconds on an idle machine."""


def address(server: BarnabasProcess, listener: str, host: str = "127.0.0.1") -> str:
    return f"{host}:{server.ports[listener]}"


def check_clients(servers: str, topic: str, settings: dict[str, Any]) -> None:
    """Write in a transaction, read in a group, ask as admin."""
    with Producer(servers, transactional_id=f"writer-{topic}", **settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        futures = [producer.send(topic, value=b"%d" % number) for number in range(10)]
        producer.commit_transaction()
        assert [future.result(SECONDS).offset for future in futures] == list(range(10))
    reader = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", **settings}
    with Consumer(servers, group_id=f"readers-{topic}", **reader) as consumer:
        consumer.subscribe([topic])
        values: list[bytes | None] = []
        deadline = time.monotonic() + SECONDS
        while len(values) < 10:
            assert time.monotonic() < deadline, values
            values += [record.value for record in consumer.poll(500)]
        assert values == [b"%d" % number for number in range(10)]
        consumer.commit_sync()
    with Admin(servers, config=ClientConfig(**settings)) as admin:
        assert topic in admin.list_topics()


def login(certificates: Certificates, listener: str, password: str = PASSWORD) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "security_protocol": SASL_LISTENERS[listener],
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": password,
    }
    if "SSL" in SASL_LISTENERS[listener]:
        settings["ssl_truststore_location"] = str(certificates.trust_pem)
    return settings


def barnabas(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "barnabas", *arguments]
    return subprocess.run(command, input="one\ntwo\n", capture_output=True, text=True, timeout=120, check=False)


PACKAGE = "org.apache.kafka.common.security"


def client_properties(path: Path, mechanism: str, user: str, password: str) -> Path:
    """Write the settings of a Java client."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={PACKAGE}.{module} required username="{user}" password="{password}";\n'
    )
    return path
