"""Apache Kafka 4 in KRaft mode, broker and controller in one process: the counterpart for consumer groups of KIP-848.

Called by tests marked `java`. The jars are those of the tools of Kafka 4 (tests/tools), which bring the broker.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.apache_kafka import BROKER_HEAP, JVM_FLAGS, TOOL_HEAP, need_apache_kafka
from tests.support.apache_kafka_kraft import CLUSTER_ID, STORAGE_TOOL, KraftKafka
from tests.support.maven import CounterpartMissing, fetch_jars, find_java
from tests.support.requirements import need
from tests.support.server_process import free_port

POM = Path(__file__).parent.parent / "tools" / "apache-kafka-4-tools.xml"


def need_apache_kafka_4() -> None:
    """Skip the test, or fail it under CI, where Apache Kafka 4 cannot be had."""
    need_apache_kafka()
    problem = ""
    try:
        fetch_jars(POM)
    except CounterpartMissing as missing:
        problem = str(missing)
    need(not problem, problem)


class ApacheKafka4(KraftKafka):
    """One broker of Apache Kafka 4, with groups of both protocols. It logs nothing (slf4j-nop)."""

    name = "apache-kafka-4"

    def start(self) -> None:
        """Start it and return when the broker answers and knows itself."""
        self.port = self.port or free_port()
        self._controller_port = self._controller_port or free_port()
        configuration = self.directory / "server.properties"
        configuration.write_text("".join(f"{key}={value}\n" for key, value in self._all_properties().items()))
        if not self.data_dir.exists():
            command = [*_java(TOOL_HEAP), STORAGE_TOOL, "format", "-t", CLUSTER_ID, "-c", str(configuration)]
            subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=self.directory)
        self.launch_broker(configuration)

    def launch_broker(self, configuration: Path) -> None:
        """Start the broker, and return when it answers and knows itself."""
        self.launch([*_java(BROKER_HEAP), "kafka.Kafka", str(configuration)])
        self.wait_for_port(60)
        self.wait_for_brokers(60)


def _java(heap: tuple[str, ...]) -> list[str]:
    return [find_java(), *heap, *JVM_FLAGS, "-cp", f"{fetch_jars(POM)}/*"]
