"""Apache Kafka 3.9's own tools: kafka-configs makes users, and Java clients log in by each mechanism."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.conftest import PASSWORD
from tests.security.secured_clients import PACKAGE, client_properties
from tests.support.apache_kafka import CONFIG_COMMAND, CONSOLE_PRODUCER, ToolFailed, need_apache_kafka, run_tool
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import SERVER_PROPERTIES

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_tools_and_clients(tmp_path: Path) -> None:
    need_apache_kafka()
    login = f'{PACKAGE}.plain.PlainLoginModule required user_alice="{PASSWORD}";'
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": login,
    }
    broker = BarnabasProcess(tmp_path / "broker", SERVER_PROPERTIES | properties)
    broker.more_listeners = ("SASL://127.0.0.1:0",)
    broker.start()
    admin = ("--bootstrap-server", f"{broker.host}:{broker.port}", "--entity-type", "users", "--entity-name", "alice")
    both = f"SCRAM-SHA-256=[iterations=8192,password={PASSWORD}],SCRAM-SHA-512=[password={PASSWORD}]"
    run_tool(CONFIG_COMMAND, *admin, "--alter", "--add-config", both, directory=tmp_path)
    shown = run_tool(CONFIG_COMMAND, *admin, "--describe", directory=tmp_path)
    assert "SCRAM-SHA-256=iterations=8192" in shown
    assert "SCRAM-SHA-512=iterations=4096" in shown
    address = f"{broker.host}:{broker.ports['SASL']}"
    with RawClient(broker) as client:
        client.create_topic("java")
        for count, mechanism in enumerate(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), 1):
            settings = client_properties(tmp_path / "client.properties", mechanism, "alice", PASSWORD)
            place = ("--bootstrap-server", address, "--topic", "java", "--producer.config", str(settings))
            run_tool(CONSOLE_PRODUCER, *place, directory=tmp_path, input_text="v\n")
            assert client.fetch("java", 0).high_watermark == count
    run_tool(CONFIG_COMMAND, *admin, "--alter", "--delete-config", "SCRAM-SHA-256", directory=tmp_path)
    assert "SCRAM-SHA-256" not in run_tool(CONFIG_COMMAND, *admin, "--describe", directory=tmp_path)
    with pytest.raises(ToolFailed, match="does not exist"):
        run_tool(CONFIG_COMMAND, *admin, "--alter", "--delete-config", "SCRAM-SHA-256", directory=tmp_path)
    broker.stop()
    assert PASSWORD not in broker.log_text()
