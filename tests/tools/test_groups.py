"""kafka-consumer-groups, kafka-groups, kafka-streams-application-reset, and the consumers that are tools.

Each release's tools print the same of our groups as of those of Apache Kafka of their release.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from barnabas.protocol.topic_partition import TopicPartition
from tests.support.raw_client import RawClient, make_batch
from tests.support.raw_group_member import await_coordinator, classic_member, consumer_member
from tests.tools.kafka_tools import SameSteps, ToolOutput

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

GROUPS = "kafka-consumer-groups"
RECORDS = (10, 4)
"""In each partition."""
TIMESTAMP_MS = 1_600_000_000_000
"""Of the first record of a partition; the next ones are an hour apart."""
HOUR_MS = 3_600_000


class GroupSteps:
    """Steps about a group and a topic with records; both have the same names on both servers."""

    def __init__(self, steps: SameSteps, topic: str) -> None:
        self.steps = steps
        self.topic = topic
        self.group = f"{topic}-group"
        self.create_topic(topic)
        for server in (self.steps.ours, self.steps.theirs):
            with RawClient(server) as client:
                await_coordinator(client, self.group)  # the tools wait no longer than five seconds

    def create_topic(self, topic: str) -> None:
        for server in (self.steps.ours, self.steps.theirs):
            with RawClient(server) as client:
                client.create_topic(topic, len(RECORDS), {"retention.ms": "-1"})
                for partition, count in enumerate(RECORDS):
                    for number in range(count):
                        value = b"value-%d-%d" % (partition, number)
                        batch = make_batch([value], timestamp_ms=TIMESTAMP_MS + number * HOUR_MS)
                        # with KRaft the leader may be known before it leads
                        while client.produce(topic, batch, partition=partition).error_code:
                            time.sleep(0.05)

    def run(self, *arguments: str, in_any_order: bool = False) -> ToolOutput:
        """kafka-consumer-groups about the group."""
        return self.steps.run(GROUPS, "--group", self.group, *arguments, in_any_order=in_any_order)

    def reset(self, *arguments: str) -> ToolOutput:
        """All of the topic's offsets."""
        return self.run("--reset-offsets", "--topic", self.topic, *arguments)

    @contextmanager
    def with_classic_member(self, instance_id: str | None = None) -> Iterator[None]:
        """Inside the block the group has a member of the classic protocol."""
        has = [TopicPartition(self.topic, 0), TopicPartition(self.topic, 1)]
        with ExitStack() as stack:
            for server in (self.steps.ours, self.steps.theirs):
                stack.enter_context(classic_member(server, self.group, has, instance_id))
            yield

    @contextmanager
    def with_consumer_member(self) -> Iterator[None]:
        """Inside the block the group has a member of the consumer protocol."""
        with ExitStack() as stack:
            for server in (self.steps.ours, self.steps.theirs):
                stack.enter_context(consumer_member(server, self.group, [self.topic]))
            yield

    def describe(self) -> None:
        """In every form."""
        for form in ((), ("--offsets", "--verbose"), ("--members",), ("--members", "--verbose"), ("--state",)):
            self.run("--describe", *form)
        self.run("--describe", "--state", "--verbose")


@pytest.fixture
def group_steps(same_group_steps: SameSteps, topic: str) -> GroupSteps:
    return GroupSteps(same_group_steps, topic)


def test_a_group_without_members_is_reset_described_and_deleted(group_steps: GroupSteps) -> None:
    group_steps.describe()
    missing = "does not exist" if group_steps.steps.tools.release == "3.9" else "GroupIdNotFoundException"
    assert missing in group_steps.run("--describe").text
    group_steps.reset("--to-latest")
    assert group_steps.group not in group_steps.steps.run(GROUPS, "--list", in_any_order=True).stdout
    group_steps.reset("--to-latest", "--execute")
    group_steps.describe()
    assert " 10 " in group_steps.run("--describe").stdout
    listed = group_steps.steps.run(GROUPS, "--list", in_any_order=True)
    assert group_steps.group in listed.stdout.splitlines()
    assert group_steps.run("--delete-offsets", "--topic", f"{group_steps.topic}:0").status == 0
    group_steps.describe()
    group_steps.run("--delete-offsets", "--topic", f"{group_steps.topic}-missing")
    if group_steps.steps.tools.release == "3.9":  # 4 lets a group without offsets be until it looks for such groups
        group_steps.run("--delete-offsets", "--topic", group_steps.topic)
        group_steps.describe()
    group_steps.reset("--to-earliest", "--execute")
    assert "was successful" in group_steps.run("--delete").stdout
    group_steps.run("--delete")
    group_steps.describe()


def test_offsets_are_reset_to_every_kind_of_place(group_steps: GroupSteps, tmp_path: Path) -> None:
    group_steps.reset("--to-current")
    group_steps.reset("--to-offset", "3", "--execute")
    for place in (
        ("--to-earliest",),
        ("--to-latest",),
        ("--to-current",),
        ("--to-offset", "7"),
        ("--to-offset", "700"),
        ("--shift-by", "2"),
        ("--shift-by", "-2"),
        ("--shift-by", "-50"),
        ("--to-datetime", "2020-09-13T14:30:00.000"),
        ("--to-datetime", "2999-09-13T14:30:00.000"),
        ("--by-duration", "PT1H"),
        ("--by-duration", "P36500D"),
    ):
        group_steps.reset(*place)
        group_steps.reset(*place, "--export")
    exported = group_steps.run("--reset-offsets", "--all-topics", "--to-current", "--export")
    file = tmp_path / "offsets.csv"
    file.write_text("".join(line + "\n" for line in exported.stdout.splitlines() if group_steps.topic in line))
    group_steps.run("--reset-offsets", "--from-file", str(file), "--dry-run")
    file.write_text(f"{group_steps.topic},0,5\n{group_steps.topic},1,99\n")
    group_steps.run("--reset-offsets", "--from-file", str(file), "--execute")
    group_steps.describe()
    single = ("--reset-offsets", "--topic", f"{group_steps.topic}:1", "--shift-by", "-1", "--execute")
    assert group_steps.run(*single).status == 0
    group_steps.describe()


def test_a_group_of_the_classic_protocol_with_a_member(group_steps: GroupSteps) -> None:
    group_steps.run("--reset-offsets", "--topic", f"{group_steps.topic}:0", "--to-offset", "3", "--execute")
    with group_steps.with_classic_member():
        group_steps.describe()
        assert " Stable " in group_steps.run("--describe", "--state").stdout
        for filtered in ("--state", "--state Stable", "--state stable,empty", "--state no-such", "--type"):
            group_steps.steps.run(GROUPS, "--list", *filtered.split(), in_any_order=True)
        for filtered in ("--type classic", "--type consumer", "--type classic --state"):
            group_steps.steps.run(GROUPS, "--list", *filtered.split(), in_any_order=True)
        assert "the current state is Stable" in group_steps.reset("--to-latest", "--execute").text
        group_steps.run("--delete")
        group_steps.run("--delete-offsets", "--topic", group_steps.topic)
    group_steps.describe()
    with group_steps.with_classic_member(instance_id="fixed"):
        group_steps.describe()
    assert group_steps.run("--delete").status == 0


def test_a_group_of_the_consumer_protocol(group_steps: GroupSteps) -> None:
    if group_steps.steps.tools.release != "4":
        return  # Apache Kafka 3.9 has none to compare with
    group_steps.run("--reset-offsets", "--topic", f"{group_steps.topic}:0", "--to-offset", "3", "--execute")
    with group_steps.with_consumer_member():
        group_steps.describe()
        group_steps.steps.run(GROUPS, "--list", "--type", "consumer", "--state", in_any_order=True)
        group_steps.reset("--to-latest", "--execute")
        group_steps.run("--delete")
        group_steps.run("--delete-offsets", "--topic", group_steps.topic)
        for which in ((), ("--consumer",), ("--group-type", "consumer"), ("--protocol", "consumer"), ("--share",)):
            group_steps.steps.run("kafka-groups", "--list", *which, in_any_order=True)
    group_steps.describe()
    assert group_steps.run("--delete").status == 0
    assert group_steps.steps.run("kafka-groups", "--list", "--group-type", "classic", in_any_order=True).status == 0


def test_groups_of_other_kinds(same_group_steps: SameSteps) -> None:
    """Share groups and Streams' own: there are none; a classic group is none of them."""
    if same_group_steps.tools.release == "4":
        for tool in ("kafka-share-groups", "kafka-streams-groups"):
            same_group_steps.run(tool, "--list")
            same_group_steps.run(tool, "--list", "--state")


def test_many_groups_at_once(group_steps: GroupSteps) -> None:
    others = [f"{group_steps.topic}-{number}" for number in range(3)]
    named = [word for name in others for word in ("--group", name)]
    for name in others:
        reset = ("--reset-offsets", "--topic", group_steps.topic, "--to-latest", "--execute")
        group_steps.steps.run(GROUPS, "--group", name, *reset)
    group_steps.steps.run(GROUPS, *named, "--describe", in_any_order=True)
    group_steps.steps.run(GROUPS, *named, "--describe", "--state", in_any_order=True)
    group_steps.steps.run(GROUPS, "--all-groups", "--describe", in_any_order=True)
    deleted = group_steps.steps.run(GROUPS, *named[:-2], "--group", f"{group_steps.topic}-missing", "--delete")
    assert f"Group '{group_steps.topic}-missing' could not be deleted" in deleted.text


def test_the_consumers_that_are_tools_read_in_groups(group_steps: GroupSteps) -> None:
    is_4 = group_steps.steps.tools.release == "4"
    option = "--command-property" if is_4 else "--consumer-property"
    for protocol in ("classic", "consumer") if is_4 else ("classic",):
        group = f"{group_steps.group}-{protocol}"
        settings = (option, f"group.protocol={protocol}", option, "auto.offset.reset=earliest")
        read = group_steps.steps.run(
            "kafka-console-consumer",
            *("--topic", group_steps.topic, "--group", group, *settings),
            *("--max-messages", str(sum(RECORDS)), "--timeout-ms", "30000"),
            in_any_order=True,
        )
        assert len(read.stdout.splitlines()) == sum(RECORDS)
        group_steps.steps.run(GROUPS, "--describe", "--group", group)
        group_steps.steps.run(GROUPS, "--describe", "--group", group, "--state")


def test_the_verifiable_consumer(group_steps: GroupSteps) -> None:
    steps = group_steps.steps
    is_4 = steps.tools.release == "4"
    for protocol in ("classic", "consumer") if is_4 else ("classic",):
        group = f"{group_steps.group}-{protocol}"
        for server in (steps.ours, steps.theirs):
            verified = steps.tools.run(
                server,
                "kafka-verifiable-consumer",
                *("--topic", group_steps.topic, "--group-id", group, "--reset-policy", "earliest"),
                *("--max-messages", str(sum(RECORDS)), *(("--group-protocol", protocol) if is_4 else ())),
            )
            check_verified(verified)
        steps.run(GROUPS, "--describe", "--group", group)


def check_verified(verified: ToolOutput) -> None:
    """It read everything once and committed that."""
    events = [json.loads(line) for line in verified.stdout.splitlines() if line.startswith("{")]
    names = [event["name"] for event in events]
    assert (names[0], names[-1]) == ("startup_complete", "shutdown_complete"), verified.text
    assigned = [place for event in events if event["name"] == "partitions_assigned" for place in event["partitions"]]
    assert {place["partition"] for place in assigned} == {0, 1}
    consumed = sum(event["count"] for event in events if event["name"] == "records_consumed")
    assert consumed == sum(RECORDS)
    commits = [event for event in events if event["name"] == "offsets_committed"]
    assert commits
    assert all(event["success"] for event in commits)
    committed = {place["partition"]: place["offset"] for event in commits for place in event["offsets"]}
    assert committed == dict(enumerate(RECORDS))


def test_a_streams_application_is_reset(group_steps: GroupSteps) -> None:
    """Its internal topics go, and it begins anew, unless somebody is at work."""
    application, topic = group_steps.group, group_steps.topic
    for name in (f"{application}-counts-changelog", f"{application}-by-word-repartition"):
        group_steps.create_topic(name)
    reset = ("--application-id", application, "--input-topics", topic)
    tool = "kafka-streams-application-reset"
    group_steps.reset("--to-latest", "--execute")
    with group_steps.with_classic_member(instance_id="at-work"):
        busy = group_steps.steps.run(tool, *reset)
        assert busy.status != 0
        assert "Consumer group" in busy.text
    group_steps.steps.run(tool, *reset, "--to-offset", "2", "--dry-run", in_any_order=True)
    group_steps.run("--describe")
    with group_steps.with_classic_member():
        assert group_steps.steps.run(tool, *reset, "--to-offset", "2", "--force", in_any_order=True).status == 0
    group_steps.run("--describe")
    for place in (
        ("--to-earliest",),
        ("--to-latest",),
        ("--shift-by", "-1"),
        ("--to-datetime", "2020-09-13T14:30:00.000"),
    ):
        group_steps.steps.run(tool, *reset, *place, in_any_order=True)
        group_steps.run("--describe")
    left = group_steps.steps.tools.run(group_steps.steps.ours, "kafka-topics", "--list").stdout.splitlines()
    assert topic in left
    assert not [name for name in left if name.startswith(f"{application}-")]
    missing = f"{topic}-missing"
    group_steps.steps.run(tool, "--application-id", application, "--input-topics", missing)
