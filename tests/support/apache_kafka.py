"""Apache Kafka 3.9 in ZooKeeper mode, as a counterpart: the broker with its ZooKeeper, and its Java tools.

Called by tests marked `java` and by the benchmarks. Jars come from Maven (`maven.fetch_jars`); nothing is installed.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.support.maven import counterparts_needed, fetch_jars, find_java
from tests.support.server_process import ServerFailed, ServerProcess, free_port

START_SECONDS = 300
"""Longer than any start on a machine that is far too busy; a server that ends is noticed at once."""
POM = Path(__file__).with_name("apache-kafka-pom.xml")

# The flags of kafka-run-class.sh and kafka-server-start.sh, so that the JVM runs as users run it.
JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
BROKER_HEAP = ("-Xmx1g", "-Xms1g")
ZOOKEEPER_HEAP = ("-Xmx512m", "-Xms512m")
TOOL_HEAP = ("-Xmx256m",)

LOG4J = """\
log4j.rootLogger={level}, output
log4j.appender.output=org.apache.log4j.ConsoleAppender
log4j.appender.output.target={target}
log4j.appender.output.layout=org.apache.log4j.PatternLayout
log4j.appender.output.layout.ConversionPattern=[%d] %p %m (%c)%n
"""

DUMP_LOG_SEGMENTS = "kafka.tools.DumpLogSegments"
CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"
DELETE_RECORDS_COMMAND = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS_COMMAND = "org.apache.kafka.tools.LogDirsCommand"
REPLICA_VERIFICATION = "org.apache.kafka.tools.ReplicaVerificationTool"
TRANSACTIONS_COMMAND = "org.apache.kafka.tools.TransactionsCommand"


def need_apache_kafka() -> None:
    """Skip the test, or fail it under CI, where Apache Kafka cannot be had: no Java, no Maven, no repository."""
    with counterparts_needed():
        find_java()
        fetch_jars(POM)


class ToolFailed(Exception):
    """A Java tool ended with an error status; the message has the end of its output."""


def _java(heap: Sequence[str], logging: Path, jars: Path) -> list[str]:
    return [find_java(), *heap, *JVM_FLAGS, f"-Dlog4j.configuration=file:{logging}", "-cp", f"{jars}/*"]


def _write_log4j(directory: Path, level: str, target: str) -> Path:
    path = directory / f"log4j-{level.lower()}.properties"
    path.write_text(LOG4J.format(level=level, target=target))
    return path


def run_tool(
    tool: str, *arguments: str, directory: Path, input_text: str | None = None, timeout_seconds: float = 120
) -> str:
    """Run one of Kafka's command line tools to its end; what it printed. Raises ToolFailed with what it said."""
    return _run_tool(tool, arguments, directory, input_text, timeout_seconds).stdout


def _run_tool(
    tool: str, arguments: Sequence[str], directory: Path, input_text: str | None = None, timeout_seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    command = _java(TOOL_HEAP, _write_log4j(directory, "WARN", "System.err"), fetch_jars(POM))
    done = subprocess.run(
        [*command, tool, *arguments],
        input=input_text,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
        cwd=directory,
    )
    if done.returncode != 0:
        raise ToolFailed(f"{tool} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done


@contextmanager
def endless_tool(tool: str, *arguments: str, directory: Path) -> Iterator[Iterator[str]]:
    """Run one of Kafka's tools that does not end by itself, as long as the block lasts. Yields the lines it prints."""
    command = [*_java(TOOL_HEAP, _write_log4j(directory, "WARN", "System.err"), fetch_jars(POM)), tool, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=directory)
    assert process.stdout is not None
    try:
        yield iter(process.stdout)
    finally:
        process.kill()
        process.communicate()


class SegmentDump(NamedTuple):
    """What DumpLogSegments said of some files: its lines, and what it complained about, which goes to stderr."""

    lines: list[str]
    complaints: list[str]


def dump_log_segments(files: Iterable[Path], *options: str, directory: Path) -> SegmentDump:
    """Run DumpLogSegments over files of segments. Raises ToolFailed when it gives up on one."""
    done = _run_tool(DUMP_LOG_SEGMENTS, ["--files", ",".join(map(str, files)), *options], directory)
    lines = done.stdout.splitlines()
    told = [line for line in lines if any(words in line for words in ("isvalid: false", "invalid bytes"))]
    return SegmentDump(lines, told + done.stderr.splitlines())


class ZooKeeper(ServerProcess):
    """The ZooKeeper among Kafka's own dependencies, standalone."""

    name = "zookeeper"

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        self.port = self.port or free_port()
        configuration = self.directory / "zookeeper.properties"
        configuration.write_text(
            f"dataDir={self.directory}/zookeeper\nclientPort={self.port}\nclientPortAddress={self.host}\n"
            "maxClientCnxns=0\nadmin.enableServer=false\n"
        )
        java = _java(ZOOKEEPER_HEAP, _write_log4j(self.directory, "INFO", "System.out"), fetch_jars(POM))
        self.launch([*java, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(configuration)])
        self.wait_for_port(START_SECONDS)
        self._wait_until_it_serves(START_SECONDS)

    def _wait_until_it_serves(self, timeout_seconds: float) -> None:
        """Return when it answers `srvr`: the port opens earlier, and a session asked for then may get no answer."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            self.fail_if_ended()
            with suppress(OSError), socket.create_connection((self.host, self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                if b"Mode:" in b"".join(iter(lambda: connection.recv(4096), b"")):
                    return
            time.sleep(0.05)
        raise ServerFailed(f"{self.name} does not serve after {timeout_seconds} s")


class ApacheKafka(ServerProcess):
    """One broker of Apache Kafka 3.9 and its ZooKeeper; `properties` go over those of the shipped server.properties."""

    name = "apache-kafka"

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(directory)
        self.zookeeper = ZooKeeper(directory)
        self.data_dir = directory / "data"
        self._properties = dict(properties or {})

    def start(self) -> None:
        """Start both and return when the broker answers and knows itself (seconds)."""
        if not self.zookeeper.is_alive:
            self.zookeeper.start()
        self.port = self.port or free_port()
        configuration = self.directory / "server.properties"
        configuration.write_text("".join(f"{key}={value}\n" for key, value in self._all_properties().items()))
        self.launch_broker(configuration)

    def launch_broker(self, configuration: Path) -> None:
        """Start the broker alone, and return when it answers and knows itself."""
        self.launch([*self._broker_command(), "kafka.Kafka", str(configuration)])
        self.wait_for_port(START_SECONDS)
        self.wait_for_brokers(START_SECONDS)

    def _broker_command(self) -> list[str]:
        """Java with all it needs to run a broker's main class."""
        return _java(BROKER_HEAP, _write_log4j(self.directory, "INFO", "System.out"), fetch_jars(POM))

    def stop(self, timeout_seconds: float = 60) -> int:
        """Stop the broker, then its ZooKeeper; the broker's exit status."""
        try:
            return super().stop(timeout_seconds)
        finally:
            self.zookeeper.stop(30)

    def close(self) -> None:
        """Stop what still runs of both."""
        super().close()
        self.zookeeper.close()

    def _all_properties(self) -> dict[str, str]:
        return {
            "broker.id": "0",
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "zookeeper.connect": f"{self.zookeeper.host}:{self.zookeeper.port}",
            "zookeeper.connection.timeout.ms": "18000",
            "log.dirs": str(self.data_dir),
            "num.network.threads": "3",
            "num.io.threads": "8",
            "socket.send.buffer.bytes": "102400",
            "socket.receive.buffer.bytes": "102400",
            "socket.request.max.bytes": "104857600",
            "num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.retention.hours": "168",
            **self._properties,
        }
