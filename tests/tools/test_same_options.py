"""Options that `barnabas` shares with Kafka's tools, given to both, against one broker: the results are the same.

What differs on purpose stands in the table "Command line" of docs/kafka-facts.md. Each case is a dry run, or is undone.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas.cli.main import barnabas
from tests.support.raw_client import RawClient, make_batch
from tests.support.server_fixtures import Server
from tests.tools.kafka_tools import KafkaTools

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

RECORDS = (10, 4)
"""In each partition."""
FIRST_MS = 1_600_000_000_000
"""2020-09-13T12:26:40Z, of the first record of a partition; the next ones are an hour apart."""
HOUR_MS = 3_600_000

REFUSED = None
Offsets = dict[int, int] | None
"""The new offset of each partition, or REFUSED."""


class BothTools:
    """A group with a topic, and the two tools that reset its offsets: each shows what it would do."""

    def __init__(self, tools: KafkaTools, server: Server, topic: str) -> None:
        self.tools = tools
        self.server = server
        self.topic = topic
        self.group = f"{topic}-group"
        with RawClient(server) as client:
            client.create_topic(topic, len(RECORDS), {"retention.ms": "-1"})
            for partition, count in enumerate(RECORDS):
                for number in range(count):
                    batch = make_batch([b"value"], timestamp_ms=FIRST_MS + number * HOUR_MS)
                    while client.produce(topic, batch, partition=partition).error_code:
                        time.sleep(0.05)
        self.ours("groups", "reset-offsets", self.group, "--topic", topic, "--to-offset", "3", "--execute")

    def ours(self, *arguments: str) -> Result:
        return CliRunner().invoke(barnabas, [*arguments, "-b", self.server.bootstrap_servers])

    def resets(self, options: Sequence[str]) -> tuple[Offsets, Offsets]:
        """What Kafka's tool would reset, and what ours would."""
        kafkas = self.tools.run(
            self.server, "kafka-consumer-groups", "--reset-offsets", "--dry-run", "--export", "--group", self.group,
            *options,
        )  # fmt: skip
        mine = self.ours("groups", "reset-offsets", self.group, "--export", *options)
        return self._offsets(kafkas.stdout) or REFUSED, self._offsets(mine.stdout) if mine.exit_code == 0 else REFUSED

    def _offsets(self, exported: str) -> dict[int, int]:
        rows = [row for row in csv.reader(exported.splitlines()) if len(row) == 3 and row[0] == self.topic]
        return {int(partition): int(offset) for _, partition, offset in rows}


@pytest.fixture
def both(tools: KafkaTools, ours: Server, topic: str) -> BothTools:
    return BothTools(tools, ours, topic)


RESETS = (
    "--to-earliest",
    "--to-latest",
    "--to-current",
    "--to-offset 0",
    "--to-offset 7",
    "--to-offset 99",
    "--to-offset -1",
    "--to-offset -9223372036854775807",
    "--to-offset x",
    "--shift-by 2",
    "--shift-by -2",
    "--shift-by 99",
    "--shift-by -99",
    "--shift-by 1.5",
    "--to-datetime 2020-09-13T15:26:40.000",
    "--to-datetime 2020-09-13T15:26:40.001",
    "--to-datetime 2020-09-13T15:26:40.000Z",
    "--to-datetime 2020-09-13T15:26:40.000+02:00",
    "--to-datetime 2020-09-13T15:26:40.000-02:30",
    "--to-datetime 2020-09-13T15:26:40.000+02",
    "--to-datetime 2999-01-01T00:00:00.000",
    "--to-datetime 2020-13-13T15:26:40.000",
    "--to-datetime 2020-02-30T15:26:40.000",
    "--to-datetime soon",
    "--by-duration PT0S",
    "--by-duration P20000D",
    "--by-duration -P1D",
    "--by-duration P-1DT-1H",
    "--by-duration PT1,5S",
    "--by-duration pt5m",
    "--by-duration P1W",
    "--by-duration PT",
    "--by-duration 1D",
)


def test_resets(both: BothTools) -> None:
    wrong = {}
    for options in RESETS:
        kafkas, mine = both.resets(["--topic", both.topic, *options.split(" ")])
        if kafkas != mine:
            wrong[options] = (kafkas, mine)
    for scope in (f"--topic {both.topic}:1", f"--topic {both.topic}:1,0", f"--topic {both.topic}:", "--all-topics"):
        kafkas, mine = both.resets([*scope.split(" "), "--to-latest"])
        if kafkas != mine:
            wrong[scope] = (kafkas, mine)
    assert wrong == {}


def test_resets_from_files(both: BothTools, tmp_path: Path) -> None:
    topic, group = both.topic, both.group
    file = tmp_path / "offsets.csv"
    wrong = {}
    for content in (
        f"{topic},0,5\n{topic},1,2\n",
        f'"{topic}",0,5',
        f"{topic},0,5\n\n",
        f"{topic},0,99\n{topic},1,-3\n",
        f"{topic},0,5\n{topic},0,6\n",
        f"{topic},0,5\r\n{topic},1,1\r\n",
        f"{group},{topic},0,5\nother,{topic},0,7\n",
        f"other,{topic},0,7\n{group},{topic},1,1\n",
        f"other,{topic},0,7\n",
        f"{topic},zero,5\n",
        f"{topic},0,5,6,7\n",
    ):
        file.write_text(content)
        kafkas, mine = both.resets(["--from-file", str(file)])
        if kafkas != mine:
            wrong[content] = (kafkas, mine)
    assert wrong == {}


def test_what_kafkas_tool_exports_of_several_groups_is_read(both: BothTools, tmp_path: Path) -> None:
    other = f"{both.topic}-other"
    both.ours("groups", "reset-offsets", other, "--topic", both.topic, "--to-offset", "1", "--execute")
    exported = both.tools.run(
        both.server, "kafka-consumer-groups", "--reset-offsets", "--dry-run", "--export", "--to-current", "--topic",
        both.topic, "--group", both.group, "--group", other,
    )  # fmt: skip
    file = tmp_path / "offsets.csv"
    file.write_text(exported.stdout)
    for group, offset in ((both.group, 3), (other, 1)):
        read = both.ours("groups", "reset-offsets", group, "--export", "--from-file", str(file))
        assert read.stdout == f"{both.topic},0,{offset}\n{both.topic},1,{offset}\n"


@pytest.mark.parametrize(
    "options",
    [
        "--topic {topic} --operation Read",
        "--topic {topic} --operation read --operation WRITE",
        "--topic {topic} --operation IdempotentWrite",
        "--group {topic} --operation Write",
        "--cluster --operation Write",
        "--cluster",
        "--transactional-id {topic} --operation Describe",
        "--user-principal User:b --operation CreateTokens",
        "--topic {topic} --resource-pattern-type prefixed --operation All",
        "--topic {topic} --resource-pattern-type match",
        "--topic {topic} --producer --idempotent",
        "--topic {topic} --consumer",
        "--topic {topic} --group {topic} --consumer",
        "--topic {topic} --group {topic} --consumer --cluster",
        "--topic {topic} --group {topic} --consumer --producer --operation Read",
    ],
)
def test_both_tools_take_or_refuse_what_an_entry_is_made_of(both: BothTools, options: str) -> None:
    """The broker has no authorizer: a tool that takes the options is told that, another one ends before it asks."""
    words = options.format(topic=both.topic).split(" ")
    kafkas = both.tools.run(both.server, "kafka-acls", "--add", "--allow-principal", "User:a", *words)
    mine = both.ours("acls", "add", "--allow-principal", "User:a", *words)
    assert ("SecurityDisabledException" in kafkas.text) == ("SECURITY_DISABLED" in mine.output), (kafkas, mine.output)
