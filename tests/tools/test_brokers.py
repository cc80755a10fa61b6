"""kafka-broker-api-versions, kafka-cluster, kafka-features, kafka-client-metrics and kafka-log-dirs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from barnabas.broker.stages.api_table import build_registry
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import Server, make_server
from tests.tools.kafka_tools import KafkaTools, SameSteps

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

API_LINE = re.compile(r"\s*(\w+)\((?P<key>\d+)\): (?P<versions>[^,]*)")


@pytest.fixture(scope="module")
def emulating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A broker of ours that plays Apache Kafka 3.9."""
    server = make_server("inline", tmp_path_factory.mktemp("emulating"), broker_emulate_version="3.9")
    with server.running():
        yield server


def api_lines(output: str) -> dict[int, str]:
    """What the tool says of each API that the broker has."""
    found = {int(match["key"]): match["versions"] for line in output.splitlines() if (match := API_LINE.match(line))}
    return {key: versions for key, versions in found.items() if versions != "UNSUPPORTED"}


@pytest.fixture
def patience(tmp_path: Path) -> tuple[str, str]:
    """The tool waits for five seconds only, too little for a JVM on a busy machine."""
    file = tmp_path / "patience.properties"
    file.write_text("request.timeout.ms=60000\ndefault.api.timeout.ms=60000\n")
    return "--command-config", str(file)


def test_an_emulated_release_has_its_versions(
    same_steps: SameSteps, emulating: Server, patience: tuple[str, str]
) -> None:
    tool = ("kafka-broker-api-versions", *patience)
    kafkas = api_lines(same_steps.tools.run(same_steps.theirs, *tool).stdout)
    ours = api_lines(same_steps.tools.run(emulating, *tool).stdout)
    assert ours == {key: kafkas[key] for key in build_registry(MagicMock(), emulated_release="3.9").handlers}


def test_our_own_versions_are_understood(tools: KafkaTools, ours: Server, patience: tuple[str, str]) -> None:
    shown = tools.run(ours, "kafka-broker-api-versions", *patience)
    assert shown.status == 0, shown.stderr
    listed = {key for key, handler in build_registry(MagicMock()).handlers.items() if handler.listed is not None}
    assert api_lines(shown.stdout).keys() == listed


def test_cluster(same_steps: SameSteps) -> None:
    assert same_steps.run("kafka-cluster", "cluster-id").stdout.startswith("Cluster ID: ")
    unregistered = same_steps.run("kafka-cluster", "unregister", "--id", "7")
    assert "does not support the broker unregistration API" in unregistered.text


def test_endpoints(tools: KafkaTools, ours: Server) -> None:
    if tools.release != "3.9":  # the sub-command is newer
        shown = tools.run(ours, "kafka-cluster", "list-endpoints")
        assert ours.host in shown.stdout
        assert str(ours.port) in shown.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("describe",),
        ("upgrade", "--feature", "metadata.version=17"),
        ("upgrade", "--feature", "foo=1", "--dry-run"),
        ("downgrade", "--feature", "foo=1"),
        ("disable", "--feature", "foo"),
    ],
    ids=" ".join,
)
def test_features(same_steps: SameSteps, arguments: tuple[str, ...]) -> None:
    # The tools of Kafka 4 ask ours by version 2 of UpdateFeatures, which refuses all features with one error as Kafka 4
    # does; Kafka 3.9 has version 1, with an error for each.
    by_version_2 = same_steps.tools.release != "3.9" and arguments != ("describe",)
    output = same_steps.run("kafka-features", *arguments, ignoring=r"^(Could|Can) not " if by_version_2 else None)
    if by_version_2:
        assert re.search(
            r"^(Could|Can) not .* following feature had an error: Invalid update version", output.text, re.MULTILINE
        )


def test_there_are_no_client_metrics(tools: KafkaTools, ours: Server) -> None:
    """Kafka in ZooKeeper mode does not have the API: the tool ends with an error there."""
    described = tools.run(ours, "kafka-client-metrics", "--describe")
    assert (described.status, described.text) == (0, "")
    listed = tools.run(ours, "kafka-client-metrics", "--list")
    assert (listed.status, listed.stdout.strip()) == (0, "")


def test_log_directories(same_steps: SameSteps, topic: str) -> None:
    for server in (same_steps.ours, same_steps.theirs):
        with RawClient(server) as client:
            client.create_topic(topic, partitions=2)
            client.wait_for_leaders(topic, 2)
            client.produce_values(topic, b"value", b"another")

    def shown(server: Server) -> Any:
        output = same_steps.tools.run(server, "kafka-log-dirs", "--describe", "--topic-list", topic)
        assert output.status == 0, output.text
        *words, last = output.stdout.splitlines()
        return words, json.loads(last.replace(str(server.data_dir), "DATA"))

    ours, theirs = shown(same_steps.ours), shown(same_steps.theirs)
    for _, described in (ours, theirs):
        (broker,) = described["brokers"]
        (directory,) = broker["logDirs"]
        directory["partitions"].sort(key=lambda partition: str(partition["partition"]))
    assert ours == theirs
    same_steps.run("kafka-log-dirs", "--describe", "--topic-list", topic, "--broker-list", "0,7")


def test_records_are_deleted(same_steps: SameSteps, topic: str, tmp_path: Path) -> None:
    for server in (same_steps.ours, same_steps.theirs):
        with RawClient(server) as client:
            client.create_topic(topic, partitions=2)
            client.wait_for_leaders(topic, 2)
            client.produce_values(topic, *(b"%d" % number for number in range(10)))
    for time in ("-1", "-2", "-3", "earliest", "latest", "max-timestamp", "0"):
        same_steps.run("kafka-get-offsets", "--topic", topic, "--time", time)

    def delete(*before: tuple[str, int, int]) -> str:
        wanted = tmp_path / "offsets.json"
        places = [{"topic": name, "partition": number, "offset": offset} for name, number, offset in before]
        wanted.write_text(json.dumps({"partitions": places, "version": 1}))
        return same_steps.run("kafka-delete-records", "--offset-json-file", str(wanted)).stdout

    assert f"partition: {topic}-0\tlow_watermark: 6" in delete((topic, 0, 6))
    delete((topic, 0, 11), (topic, 1, 0))
    delete((topic, 0, -1))
    for time in ("-1", "-2"):  # by time, Kafka finds deleted records
        same_steps.run("kafka-get-offsets", "--topic", topic, "--time", time)
    assert same_steps.run("kafka-get-offsets", "--topic-partitions", f"{topic}:0-1", "--time", "-2").stdout == (
        f"{topic}:0:10\n"
    )
    same_steps.run("kafka-get-offsets", "--topic", f"{topic}-unknown")
