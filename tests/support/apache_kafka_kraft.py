"""Apache Kafka 3.9 in KRaft mode, broker and controller in one process: for what it leaves on the disk.

Called by tests marked `java`. The jars are those of `apache_kafka`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.apache_kafka import ApacheKafka, run_tool
from tests.support.server_process import ServerProcess, free_port

STORAGE_TOOL = "kafka.tools.StorageTool"
NODE_ID = 3
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


class KraftKafka(ApacheKafka):
    """Without a ZooKeeper; its log directory is formatted by the first start."""

    name = "apache-kafka-kraft"

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, properties)
        self._controller_port = 0

    def start(self) -> None:
        """Start it and return when the broker answers and knows itself."""
        self.port = self.port or free_port()
        self._controller_port = self._controller_port or free_port()
        configuration = self.directory / "server.properties"
        configuration.write_text("".join(f"{key}={value}\n" for key, value in self._all_properties().items()))
        if not self.data_dir.exists():
            self._run_storage_tool("format", "-t", CLUSTER_ID, "-c", str(configuration))
        self.launch_broker(configuration)

    def _run_storage_tool(self, *arguments: str) -> None:
        run_tool(STORAGE_TOOL, *arguments, directory=self.directory)

    def stop(self, timeout_seconds: float = 60) -> int:
        """Stop it; the exit status."""
        return ServerProcess.stop(self, timeout_seconds)

    def close(self) -> None:
        """Stop it if it still runs."""
        ServerProcess.close(self)

    def _all_properties(self) -> dict[str, str]:
        properties = super()._all_properties()
        for name in (
            "broker.id",
            "zookeeper.connect",
            "zookeeper.connection.timeout.ms",
            "zookeeper.session.timeout.ms",
        ):
            properties.pop(name, None)
        return properties | {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "controller.quorum.voters": f"{NODE_ID}@{self.host}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{self._controller_port}",
        }
