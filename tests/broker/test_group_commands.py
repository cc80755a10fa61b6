"""`barnabas groups` against a running broker; what it shows and does, Apache Kafka's groups and offsets do too."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from barnabas.protocol.topic_partition import TopicPartition
from tests.support.apache_kafka_kraft import NODE_ID
from tests.support.command_line import Run, run_against
from tests.support.raw_client import CLIENT_ID
from tests.support.raw_group_member import classic_member, consumer_member
from tests.support.server_fixtures import AGAINST, Server
from tests.support.thread_signals import other_threads, signal_thread

BROKER_ID = NODE_ID if AGAINST == "apache-kafka-4" else 0


@pytest.fixture
def run(server: Server) -> Run:
    return run_against(server.bootstrap_servers)


@pytest.fixture
def filled(run: Run, topic: str) -> str:
    """A topic with 10 records in partition 0 and 4 in partition 1; groups are named after it."""
    assert run("topics", "create", topic, "--partitions=2").exit_code == 0
    for partition, count in enumerate((10, 4)):
        lines = "".join(f"{number}\n" for number in range(count))
        assert run("produce", topic, f"--partition={partition}", "--quiet", stdin=lines).exit_code == 0
    return topic


def plan(result: Result) -> list[tuple[str, ...]]:
    """(partition, before, after) of what reset-offsets prints."""
    assert result.exit_code == 0, result.stderr
    rows = [line.split("\t")[2:] for line in result.stdout.splitlines()]
    return [tuple(cell.split(" ")[-1] for cell in row) for row in rows]


def test_a_reset_is_shown_first_and_then_done(run: Run, filled: str) -> None:
    group = f"{filled}-group"
    reset = ("groups", "reset-offsets", group, "--topic", filled)
    tried = run(*reset, "--to-latest")
    assert plan(tried) == [("0", "-", "10"), ("1", "-", "4")]
    assert "nothing was changed" in tried.stderr
    assert group not in run("groups", "list").stdout
    done = run(*reset, "--to-latest", "--execute")
    assert plan(done) == [("0", "-", "10"), ("1", "-", "4")]
    assert done.stderr == ""
    assert plan(run(*reset, "--shift-by=-3", "--execute")) == [("0", "10", "7"), ("1", "4", "1")]
    assert plan(run(*reset, "--shift-by=5", "--execute")) == [("0", "7", "10"), ("1", "1", "4")]
    assert plan(run(*reset, "--to-offset=6", "--execute")) == [("0", "10", "6"), ("1", "4", "4")]
    assert plan(run(*reset, "--to-offset=-1")) == [("0", "6", "0"), ("1", "4", "0")]
    assert plan(run(*reset, "--to-earliest")) == [("0", "6", "0"), ("1", "4", "0")]
    assert plan(run(*reset, "--to-current")) == [("0", "6", "6"), ("1", "4", "4")]
    planned = run(*reset, "--to-datetime=2020-01-31T12:00")
    assert "to the first records from 2020-01-31T12:00:00.000+00:00 on" in planned.stderr.splitlines()
    assert plan(planned) == [("0", "6", "0"), ("1", "4", "0")]
    assert plan(run(*reset, "--to-datetime=2999-01-31T12:00Z")) == [("0", "6", "10"), ("1", "4", "4")]
    assert plan(run(*reset, "--to-datetime=1969-12-31T23:59:59.999Z")) == [("0", "6", "0"), ("1", "4", "0")]
    assert plan(run(*reset, f"--by-duration=P{'9' * 30}D")) == [("0", "6", "0"), ("1", "4", "0")]
    assert plan(run(*reset, "--by-duration=P1DT2H")) == [("0", "6", "0"), ("1", "4", "0")]
    assert plan(run(*reset, "--by-duration=-P1D")) == [("0", "6", "10"), ("1", "4", "4")]
    assert plan(run(*reset, f"--by-duration=-P{'9' * 30}D")) == [("0", "6", "10"), ("1", "4", "4")]
    described = run("groups", "describe", group).stdout.splitlines()
    assert described == [
        f"{group}\tEmpty\ttype classic\tassignor -\tcoordinator {BROKER_ID}\tmembers 0",
        f"\ttopic {filled}\tpartition 0\tcommitted 6\tend 10\tlag 4\tmember -\thost -\tclient -",
        f"\ttopic {filled}\tpartition 1\tcommitted 4\tend 4\tlag 0\tmember -\thost -\tclient -",
    ]
    assert f"{group}\ttype classic\tprotocol -\tEmpty" in run("groups", "list", "--state=Empty").stdout.splitlines()


def test_a_reset_goes_to_a_file_and_comes_from_one(run: Run, filled: str, tmp_path: Path) -> None:
    group, other = f"{filled}-group", f"{filled}-other"
    run("groups", "reset-offsets", group, "--topic", f"{filled}:1", "--to-offset=2", "--execute")
    exported = run("groups", "reset-offsets", group, "--all-topics", "--to-current", "--export")
    assert (exported.stdout, exported.stderr) == (f"{filled},1,2\n", "")
    file = tmp_path / "offsets.csv"
    file.write_text(exported.stdout + f"{filled},0,99\n")
    assert plan(run("groups", "reset-offsets", other, "--from-file", str(file), "--execute")) == [
        ("0", "-", "10"),
        ("1", "-", "2"),
    ]
    # What kafka-consumer-groups exports of several groups: the lines of others are theirs. It ends with an empty line.
    file.write_text(f'{group},"{filled}",0,3\n{other},{filled},1,1\n{other},{filled},0,4\n\n')
    assert plan(run("groups", "reset-offsets", other, "--from-file", str(file))) == [("0", "10", "4"), ("1", "2", "1")]
    stranger = run("groups", "reset-offsets", f"{filled}-third", "--from-file", str(file))
    assert (stranger.exit_code, stranger.stdout) == (2, "")
    assert stranger.stderr == f"barnabas: the file has no offsets for group {filled}-third\n"
    file.write_text(f"{filled},7,2\n")
    missing = run("groups", "reset-offsets", other, "--from-file", str(file))
    assert (missing.exit_code, f"{filled} has no partition 7" in missing.stderr) == (2, True)
    for line in ("one,2", "1,-2", "1_0,2", "1,2,3", "1", "1,"):
        file.write_text(f"{filled},1,2\n{filled},{line}\n")
        wrong = run("groups", "reset-offsets", other, "--from-file", str(file))
        expected = f"barnabas: line 2 is not topic,partition,offset: {filled},{line}\n"
        assert (wrong.exit_code, wrong.stderr) == (2, expected)


def test_a_topic_of_a_group_is_deleted(run: Run, filled: str) -> None:
    """What the group has committed for it may still be there for a moment; it is in nobody's way."""
    group = f"{filled}-group"
    other = f"{filled}-other"
    run("topics", "create", other, "--partitions=1")
    for topic in (filled, other):
        run("groups", "reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    run("topics", "delete", filled)
    described = run("groups", "describe", group)
    assert described.exit_code == 0, described.stderr
    assert f"\ttopic {other}\tpartition 0\tcommitted 0\tend 0\tlag 0" in described.stdout


def test_groups_and_their_offsets_are_deleted(run: Run, filled: str) -> None:
    group = f"{filled}-group"
    run("groups", "reset-offsets", group, "--topic", filled, "--to-latest", "--execute")
    deleted = run("groups", "delete-offsets", group, "--topic", f"{filled}:0")
    assert (deleted.exit_code, deleted.stdout) == (0, f"{filled}\tpartition 0\tdeleted\n"), deleted.stderr
    assert len(run("groups", "describe", group).stdout.splitlines()) == 1 + 1
    gone = run("groups", "delete", group, f"{group}-missing")
    assert gone.exit_code == 1
    assert gone.stdout == f"{group} deleted\n"
    assert f"The group id does not exist. Group: {group}-missing (GROUP_ID_NOT_FOUND)" in gone.stderr
    assert "GROUP_ID_NOT_FOUND" in run("groups", "describe", group).stderr


def test_a_group_with_a_member(run: Run, server: Server, filled: str) -> None:
    group = f"{filled}-group"
    has = [TopicPartition(filled, 0), TopicPartition(filled, 1)]
    run("groups", "reset-offsets", group, "--topic", f"{filled}:0", "--to-offset=3", "--execute")
    with classic_member(server, group, has, instance_id="first") as member_id:
        head, *rows = run("groups", "describe", group).stdout.splitlines()
        assert head == f"{group}\tStable\ttype classic\tassignor range\tcoordinator {BROKER_ID}\tmembers 1"
        who = f"member {member_id}\thost /127.0.0.1\tclient {CLIENT_ID}"
        assert rows == [
            f"\ttopic {filled}\tpartition 0\tcommitted 3\tend 10\tlag 7\t{who}",
            f"\ttopic {filled}\tpartition 1\tcommitted -\tend 4\tlag -\t{who}",
        ]
        _, only = run("groups", "describe", group, "--members").stdout.splitlines()
        assert only == (
            f"\tmember {member_id}\tinstance first\tclient {CLIENT_ID}\thost /127.0.0.1"
            f"\tpartitions {filled}-0,{filled}-1"
        )
        listed = run("groups", "list", "--type=Consumer,classic", "--state=empty,stable").stdout.splitlines()
        assert f"{group}\ttype classic\tprotocol consumer\tStable" in listed
        refused = run("groups", "reset-offsets", group, "--topic", filled, "--to-latest", "--execute")
        assert refused.exit_code == 1
        assert "is inactive, but the current state is Stable. (NON_EMPTY_GROUP)" in refused.stderr
        kept = run("groups", "delete", group)
        assert (kept.exit_code, kept.stderr) == (
            1,
            f"barnabas: The group is not empty. Group: {group} (NON_EMPTY_GROUP)\n",
        )
        subscribed = run("groups", "delete-offsets", group, "--topic", f"{filled}:0")
        assert subscribed.exit_code == 1
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in subscribed.stderr
    assert run("groups", "delete", group).exit_code == 0


@pytest.mark.skipif(AGAINST == "apache-kafka", reason="Apache Kafka 3.9 in ZooKeeper mode has no consumer protocol")
def test_a_group_of_the_consumer_protocol(run: Run, server: Server, filled: str) -> None:
    group = f"{filled}-group"
    with consumer_member(server, group, [filled]) as member_id:
        head, *rows = run("groups", "describe", group).stdout.splitlines()
        assert head.startswith(f"{group}\tStable\ttype consumer\tassignor uniform\tepoch ")
        assert head.endswith(f"\tcoordinator {BROKER_ID}\tmembers 1")
        assert [row.split("\t")[2:5] for row in rows] == [
            ["partition 0", "committed -", "end 10"],
            ["partition 1", "committed -", "end 4"],
        ]
        _, only = run("groups", "describe", group, "--members").stdout.splitlines()
        places = f"{filled}-0,{filled}-1"
        assert f"member {member_id}\t" in only
        assert f"\tpartitions {places}\t" in only
        assert only.endswith(f"\ttarget {places}\tsubscribed {filled}")
        assert f"{group}\ttype consumer\tprotocol consumer\tStable" in run("groups", "list", "--type=consumer").stdout
        assert "NON_EMPTY_GROUP" in run("groups", "delete", group).stderr
    assert run("groups", "delete", group).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("describe",), 2, "name the groups, or give --all"),
        (("describe", "x", "--all"), 2, "name the groups, or give --all"),
        (("describe", "nobody"), 1, "GROUP_ID_NOT_FOUND"),
        (("list", "--type=no-such"), 2, "'no-such' is not one of 'classic', 'consumer', 'share'"),
        (("list", "--state=Bogus"), 2, "'Bogus' is not one of 'assigning'"),
        (("reset-offsets", "g", "--topic=t"), 2, "give exactly one of --to-earliest, "),
        (("reset-offsets", "g", "--topic=t", "--to-latest", "--to-offset=0"), 2, "give exactly one of --to"),
        (
            ("reset-offsets", "g", "--to-offset=0"),
            2,
            "name the partitions with one of --topic, --all-topics or --from-file",
        ),
        (("reset-offsets", "g", "--topic=nowhere", "--to-latest"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("reset-offsets", "g", "--topic=nowhere:x", "--to-latest"), 2, "--topic takes NAME or NAME:0,3"),
        (("reset-offsets", "g", "--topic=t", "--to-datetime=soon"), 2, "--to-datetime takes a time such as"),
        (("reset-offsets", "g", "--topic=t", "--by-duration=PT"), 2, "--by-duration takes a duration such as"),
        (("reset-offsets", "g", "--topic=t", "--by-duration=7d"), 2, "--by-duration takes a duration such as"),
        (("reset-offsets", "g", "--topic=t", "--to-offset=x"), 2, "--to-offset"),
        (("delete-offsets", "g"), 2, "name the partitions with --topic"),
        (("delete-offsets", "g", "--topic=nowhere"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("delete", "nobody"), 1, "GROUP_ID_NOT_FOUND"),
    ],
)
def test_errors_are_one_line(run: Run, arguments: tuple[str, ...], status: int, message: str) -> None:
    result = run("groups", *arguments)
    assert result.exit_code == status, result.output
    assert message in (result.stderr.splitlines() or [""])[-1]
    assert "Traceback" not in result.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_member_that_is_told_to_stop_commits_and_leaves(
    run: Run, server: Server, filled: str, number: signal.Signals
) -> None:
    group = f"{filled}-stopped"
    command = [sys.executable, "-m", "barnabas", "consume", filled, "--group", group, "--follow"]
    with subprocess.Popen(
        [*command, "-b", server.bootstrap_servers], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert len([process.stdout.readline() for _ in range(14)]) == 14
        signal_thread(process.pid, other_threads(process.pid)[-1], number)
        _, told = process.communicate(timeout=30)
    assert (process.returncode, told.split()[-2:]) == (0, [b"14", b"records"])
    assert f"{group}\ttype classic\tprotocol consumer\tEmpty" in run("groups", "list").stdout.splitlines()
    assert plan(run("groups", "reset-offsets", group, "--topic", filled, "--shift-by=0")) == [
        ("0", "10", "10"),
        ("1", "4", "4"),
    ]
