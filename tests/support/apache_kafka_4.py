"""Apache Kafka 4 in KRaft mode, broker and controller in one process: the counterpart for consumer groups of KIP-848.

Called by tests marked `java`. The jars are those of the tools of Kafka 4 (tests/tools), which bring the broker.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.apache_kafka import BROKER_HEAP, JVM_FLAGS, TOOL_HEAP, need_apache_kafka
from tests.support.apache_kafka_kraft import STORAGE_TOOL, KraftKafka
from tests.support.maven import counterparts_needed, fetch_jars, find_java

POM = Path(__file__).parent.parent / "tools" / "apache-kafka-4-tools.xml"


def need_apache_kafka_4() -> None:
    """Skip the test, or fail it under CI, where Apache Kafka 4 cannot be had."""
    need_apache_kafka()
    with counterparts_needed():
        fetch_jars(POM)


class ApacheKafka4(KraftKafka):
    """One broker of Apache Kafka 4, with groups of both protocols. It logs nothing (slf4j-nop)."""

    name = "apache-kafka-4"

    def _run_storage_tool(self, *arguments: str) -> None:
        command = [*_java(TOOL_HEAP), STORAGE_TOOL, *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=self.directory)

    def _broker_command(self) -> list[str]:
        return _java(BROKER_HEAP)


def _java(heap: tuple[str, ...]) -> list[str]:
    return [find_java(), *heap, *JVM_FLAGS, "-cp", f"{fetch_jars(POM)}/*"]
