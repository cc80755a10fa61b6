"""Apache Kafka 4 in KRaft mode, broker and controller in one process: the counterpart for consumer groups of KIP-848.

Called by tests marked `java`. The jars are those of the tools of Kafka 4 (tests/tools), which bring the broker.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    """One broker of Apache Kafka 4, with groups of both protocols. It logs nothing (slf4j-nop).

    `plugins`: a directory of compiled classes that its settings name.
    """

    name = "apache-kafka-4"

    def __init__(
        self, directory: Path, properties: Mapping[str, str] | None = None, *, plugins: Path | None = None
    ) -> None:
        super().__init__(directory, properties)
        self._plugins = plugins

    def _run_storage_tool(self, *arguments: str) -> None:
        command = [*_java(TOOL_HEAP, self._plugins), STORAGE_TOOL, *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=self.directory)

    def _broker_command(self) -> list[str]:
        return _java(BROKER_HEAP, self._plugins)


def compile_plugin(source: Path, classes: Path) -> None:
    """Compile a class for the broker into a directory. Raises CalledProcessError."""
    javac = Path(find_java()).resolve().with_name("javac")
    command = [str(javac), "-nowarn", "-d", str(classes), "-cp", f"{fetch_jars(POM)}/*", str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


@contextmanager
def running_tool_4(tool: str, *arguments: str, input_text: str = "") -> Iterator[None]:
    """Run a command line tool of Kafka 4 inside the block; its input stays open. What it prints is dropped."""
    command = [*_java(TOOL_HEAP), tool, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(input_text)
            process.stdin.flush()
            yield
        finally:
            process.terminate()


def _java(heap: tuple[str, ...], plugins: Path | None = None) -> list[str]:
    jars = f"{fetch_jars(POM)}/*"
    return [find_java(), *heap, *JVM_FLAGS, "-cp", jars if plugins is None else f"{jars}:{plugins}"]
