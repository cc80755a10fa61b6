"""kafka-reassign-partitions moves a replica of ours into another log directory, and kafka-log-dirs shows it there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.each_broker.each_broker import eventually
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import RawClient
from tests.tools.kafka_tools import KafkaTools

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]


def test_tool_moves_a_replica(tools: KafkaTools, tmp_path: Path) -> None:
    server = BarnabasProcess(tmp_path / "server")
    server.log_dirs = (tmp_path / "a", tmp_path / "b")
    topic = "moved"
    with server.running():
        with RawClient(server) as client:
            client.create_topic(topic)
            for _ in range(20):
                client.produce_values(topic, b"x" * 100_000)
        source, target = sorted(server.log_dirs, key=lambda path: not (path / f"{topic}-0").exists())
        entry = {"topic": topic, "partition": 0, "replicas": [0], "log_dirs": [str(target)]}
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        words = ("kafka-reassign-partitions", "--reassignment-json-file", str(plan))
        executed = tools.run(server, *words, "--execute")
        assert f"Successfully started moving log directory to {target} for replica moved-0" in executed.stdout
        done = "moved-0-0 completed successfully"
        eventually(lambda: tools.run(server, *words, "--verify").stdout, lambda printed: done in printed)
        described = tools.run(server, "kafka-log-dirs", "--describe", "--topic-list", topic).stdout
        (broker,) = json.loads(described.splitlines()[-1])["brokers"]
        replicas = {each["logDir"]: each["partitions"] for each in broker["logDirs"]}
        assert replicas[str(source)] == []
        (moved,) = replicas[str(target)]
        assert moved["size"] > 2_000_000
        assert not moved["isFuture"]
