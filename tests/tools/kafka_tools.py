"""Apache Kafka's command line tools, run one after another in one JVM: each start costs two seconds of processor time.

`KafkaTools` is such a JVM for one release; `SameSteps` runs a tool against our broker and against Apache Kafka 3.9, and
compares what it prints. Used by the tests here through the fixtures of conftest. Not for use by two threads at once.
"""

from __future__ import annotations

import difflib
import re
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Final

from tests.support.apache_kafka import POM, TOOL_HEAP, ApacheKafka
from tests.support.maven import fetch_jars, find_java
from tests.support.server_fixtures import Server
from tests.support.server_process import ServerProcess

_HERE: Final = Path(__file__).parent
RUN_SECONDS: Final = 300

POMS: Final = {"3.9": POM, "4": _HERE / "apache-kafka-4-tools.xml"}
"""By release."""

TOOLS: Final = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
}
"""Main classes by the names of the shell scripts."""

MOVED_IN_4: Final = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}

LOGGING_OF_RELEASE_4: Final = "main ERROR Reconfiguration failed"
"""Said once by each JVM, about its own logging."""

PLACE_IS_LAST: Final = {"kafka-cluster"}
"""Tools that take the address after their sub-command."""


@dataclass(frozen=True)
class ToolOutput:
    """How a run ended and what it printed."""

    status: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """Both, for messages that a release prints here and another there."""
        return self.stdout + self.stderr


class ToolsFailed(Exception):
    """The JVM ended, or a tool did not come to its end."""


class KafkaTools:
    """One release's tools; the JVM starts with the first run."""

    def __init__(self, release: str, directory: Path) -> None:
        self.release = release
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, server: ServerProcess, tool: str, *arguments: str) -> ToolOutput:
        """Run `tool`, by its script's name, against `server`; to its end, whatever its status."""
        place = ("--bootstrap-server", server.bootstrap_servers)
        return self.run_as_given(tool, *((*arguments, *place) if tool in PLACE_IS_LAST else (*place, *arguments)))

    def run_as_given(self, tool: str, *arguments: str) -> ToolOutput:
        """Run `tool` with exactly these arguments."""
        main = MOVED_IN_4.get(tool, TOOLS[tool]) if self.release == "4" else TOOLS[tool]
        process = self._running()
        watch = Timer(RUN_SECONDS, process.kill)
        watch.start()
        try:
            return self._exchange(process, (main, *arguments))
        except (EOFError, BrokenPipeError):
            log = self._log.read_text(errors="replace")[-2000:]
            raise ToolsFailed(f"no end of {tool} {' '.join(arguments)} within {RUN_SECONDS} s:\n{log}") from None
        finally:
            watch.cancel()

    def close(self) -> None:
        """End the JVM."""
        if self._process is not None:
            self._process.communicate(timeout=30)
            self._process = None

    @property
    def _log(self) -> Path:
        return self.directory / f"tools-{self.release}.log"

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            jars = fetch_jars(POMS[self.release])
            logging = self.directory / "log4j-tools.properties"
            logging.write_text("log4j.rootLogger=OFF\n")
            flags = [*TOOL_HEAP, "-XX:TieredStopAtLevel=1", f"-Dlog4j.configuration=file:{logging}"]
            command = [find_java(), *flags, "-cp", f"{jars}/*", str(_HERE / "ToolRunner.java")]
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=self.directory
                )
        return self._process

    @staticmethod
    def _exchange(process: subprocess.Popen[bytes], words: Sequence[str]) -> ToolOutput:
        assert process.stdin is not None
        assert process.stdout is not None
        encoded = [word.encode() for word in words]
        request = b"".join(struct.pack(">H", len(word)) + word for word in encoded)
        process.stdin.write(struct.pack(">i", len(encoded)) + request)
        process.stdin.flush()

        def take(size: int) -> bytes:
            taken = process.stdout.read(size) if process.stdout is not None else b""
            if len(taken) < size:
                raise EOFError
            return taken

        (status,) = struct.unpack(">i", take(4))
        stdout, stderr = (take(struct.unpack(">i", take(4))[0]).decode(errors="replace") for _ in range(2))
        return ToolOutput(status, stdout, stderr)


class SameSteps:
    """Runs the same step on our broker and on Apache Kafka 3.9, and holds the outputs against each other."""

    def __init__(self, tools: KafkaTools, ours: Server, theirs: ApacheKafka) -> None:
        self.tools = tools
        self.ours = ours
        self.theirs = theirs

    def run(self, tool: str, *arguments: str, ignoring: str | None = None, in_any_order: bool = False) -> ToolOutput:
        """Run it on both; our output, which is Kafka's but for addresses, ids and directories.

        ignoring: a regular expression of lines that may differ, with the reason said where it is given.
        in_any_order: of lines that a hash table orders.
        Fails when the statuses or the lines differ. A server may be named in the arguments as `{data_dir}`.
        """
        mine, kafkas = (
            self.tools.run(
                server, tool, *(argument.replace("{data_dir}", str(server.data_dir)) for argument in arguments)
            )
            for server in (self.ours, self.theirs)
        )
        command = f"{tool} {' '.join(arguments)} ({self.tools.release})"
        expected, found = (
            comparable_lines(output, server, ignoring) for output, server in ((kafkas, self.theirs), (mine, self.ours))
        )
        if in_any_order:
            expected, found = sorted(expected), sorted(found)
        difference = "\n".join(difflib.unified_diff(expected, found, "Apache Kafka", "ours", lineterm="", n=1))
        assert not difference, f"{command} prints:\n{difference}"
        assert mine.status == kafkas.status, command
        return mine


UUID: Final = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b")
STACK: Final = re.compile(r"\s+at [\w.$/]+\(|\s+\.\.\. \d+ more")


def comparable_lines(output: ToolOutput, server: Server, ignoring: str | None = None) -> list[str]:
    """What a tool printed, without what differs from server to server: its address, its directories, ids; no stacks."""
    text = output.text.replace(server.bootstrap_servers, "HOST:PORT").replace(str(server.data_dir), "DATA")
    text = re.sub(r"(Topic: \S+\s+TopicId: )\S+", r"\1ID", text)
    text = re.sub(r"(Cluster ID: )\S+", r"\1ID", text)
    text = re.sub(r"HOST:PORT(\s+)\(\d+\)", r"HOST:PORT\1(BROKER)", text)
    text = UUID.sub("UUID", text)
    # eligible leader replicas: "N/A" where the broker lacks DescribeTopicPartitions
    text = re.sub(r"\s*Elr: (N/A)?\s*LastKnownElr: (N/A)?\s*$", "", text, flags=re.MULTILINE)
    skipped = re.compile(ignoring) if ignoring else None
    return [
        line
        for line in text.splitlines()
        if not STACK.match(line) and not (skipped is not None and skipped.search(line))
    ]
