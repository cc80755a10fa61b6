"""`barnabas topics`, `produce` and `consume` against a running broker."""

import json
from pathlib import Path

import pytest

from barnabas.testing import BrokerProcess
from tests.support.command_line import Run


def test_a_topics_life(run: Run) -> None:
    # As in Kafka's tool, spaces around a name and a value count for nothing.
    created = run("topics", "create", "life", "--partitions", "3", "--config", "retention.ms = 5000 ")
    assert (created.exit_code, created.stdout) == (0, "life created: partitions 3, replicas 1\n")
    again = run("topics", "create", "life")
    assert (again.exit_code, again.stderr) == (
        1,
        "barnabas: life was not created: Topic 'life' already exists. (TOPIC_ALREADY_EXISTS)\n",
    )
    assert run("topics", "create", "life", "--if-not-exists").exit_code == 0
    assert "life" in run("topics", "list").stdout.splitlines()
    described = run("topics", "describe", "life")
    assert described.exit_code == 0, described.stderr
    head, *partitions = described.stdout.splitlines()
    assert head.startswith("life\tid ")
    assert head.endswith("\tpartitions 3\treplicas 1\tsettings retention.ms=5000")
    assert partitions[2] == "\tpartition 2\tleader 0\treplicas 0\tin sync 0"
    assert run("topics", "delete", "life").stdout == "life deleted\n"
    assert run("topics", "delete", "life").exit_code == 1
    assert run("topics", "delete", "life", "--if-exists").exit_code == 0


def test_topics_beside_a_wrong_one_are_created_and_deleted(run: Run) -> None:
    created = run("topics", "create", "beside-1", "be/side", "beside-2")
    assert created.exit_code == 1
    assert [line.split(":")[0] for line in created.stdout.splitlines()] == ["beside-1 created", "beside-2 created"]
    assert created.stderr.startswith("barnabas: be/side was not created: Topic name is invalid: 'be/side' contains")
    deleted = run("topics", "delete", "beside-1", "no-such", "beside-2")
    assert (deleted.exit_code, deleted.stdout) == (1, "beside-1 deleted\nbeside-2 deleted\n")
    assert deleted.stderr.startswith("barnabas: no-such was not deleted: ")
    assert deleted.stderr.count("\n") == 1


def test_a_description_of_everything_leaves_internal_topics_out(run: Run) -> None:
    run("topics", "create", "own-topic")
    run("groups", "reset-offsets", "makes-the-internal-topic", "--topic=own-topic", "--to-earliest", "--execute")
    everything = run("topics", "describe")
    assert (everything.exit_code, "own-topic\tid " in everything.stdout) == (0, True)
    assert "__consumer_offsets" not in everything.stdout
    assert "__consumer_offsets\tid " in run("topics", "describe", "__consumer_offsets").stdout


def test_an_escape_sequence_separates_keys_from_values(run: Run) -> None:
    run("topics", "create", "tabs")
    assert run("produce", "tabs", r"--key-separator=\t", stdin="a\tb\n").exit_code == 0
    shown = run("consume", "tabs", "--print-key", r"--separator=\x1f", "--quiet")
    assert (shown.exit_code, shown.stdout) == (0, "a\x1fb\n"), shown.stderr
    assert run("consume", "tabs", "--print-key", "--quiet").stdout == "a\tb\n"


def test_an_offset_beyond_the_end_is_named(run: Run) -> None:
    run("topics", "create", "short", "--partitions=2")
    run("produce", "short", "--partition=1", stdin="0\n1\n2\n")
    beyond = run("consume", "short", "--from=4")
    assert (beyond.exit_code, beyond.stdout) == (2, "")
    assert "--from 4 is beyond the end of the log: the next offset is 3" in beyond.stderr
    assert run("consume", "short", "--from=2", "--quiet").stdout == "2\n"


def test_lines_go_out_and_come_back(run: Run, tmp_path: Path) -> None:
    run("topics", "create", "lines", "--partitions", "2")
    first = run(
        "produce", "lines", "--key-separator=:", "--header=source=test", "--null-marker=NULL", stdin="a:1\nb:NULL\n"
    )
    assert first.exit_code == 0, first.stderr
    file = tmp_path / "lines"
    file.write_text("".join(f"{number}\r\n" for number in range(1000)))
    second = run("produce", "lines", str(file), "--compression=zstd", "--partition=1", "--quiet")
    assert (second.exit_code, second.output) == (0, "")

    everything = run("consume", "lines", "--json", "--quiet")
    assert everything.exit_code == 0, everything.stderr
    records = [json.loads(line) for line in everything.stdout.splitlines()]
    assert len(records) == 1002
    keyed = {record["key"]: record for record in records if record["key"]}
    assert keyed["a"]["value"] == "1"
    assert keyed["b"]["value"] is None
    assert keyed["a"]["headers"] == [["source", "test"]]
    values = [record["value"] for record in records if record["partition"] == 1 and not record["key"]]
    assert values == [str(number) for number in range(1000)]

    assert run("consume", "lines", "--max-messages=0").stdout == ""
    unlimited = run("consume", "lines", "--max-messages=-1").stdout
    assert sorted(unlimited.splitlines()) == sorted(run("consume", "lines").stdout.splitlines())
    some = run("consume", "lines", "--partition=1", "--from=5", "--max-messages=2", "--print-offset", "--quiet")
    assert [line.split("\t")[0] for line in some.stdout.splitlines()] == ["Offset:5", "Offset:6"]
    assert run("consume", "lines", "--from=end", "--quiet").stdout == ""
    assert len(run("consume", "lines", "--from=2001-01-01T00:00:00", "--quiet").stdout.splitlines()) == 1002


def test_settings_are_shown_and_changed(run: Run) -> None:
    run("topics", "create", "settings", "--config", "retention.ms=5000")
    assert run("configs", "get", "--topic=settings").stdout == "retention.ms=5000\ttopic\n"
    changed = run("configs", "set", "-t", "settings", "cleanup.policy+=compact", "flush.messages=7")
    assert (changed.exit_code, changed.stdout) == (0, "settings changed\n")
    assert run("configs", "set", "-t", "settings", "cleanup.policy-=delete").exit_code == 0
    tried = run("configs", "unset", "-t", "settings", "retention.ms", "--validate-only")
    assert (tried.exit_code, tried.stdout) == (0, "settings could be changed\n")
    assert run("configs", "get", "-t", "settings").stdout.splitlines() == [
        "cleanup.policy=compact\ttopic",
        "flush.messages=7\ttopic",
        "retention.ms=5000\ttopic",
    ]
    assert run("configs", "unset", "-t", "settings", "retention.ms", "flush.messages").exit_code == 0
    named = run("configs", "get", "-t", "settings", "retention.ms", "cleanup.policy").stdout.splitlines()
    assert named == ["retention.ms=604800000\tdefault", "cleanup.policy=compact\ttopic"]
    assert len(run("configs", "get", "-t", "settings", "--all").stdout.splitlines()) > 30
    own = run("configs", "get", "--broker=0").stdout.splitlines()
    assert "auto.create.topics.enable=false\tbroker" in own
    assert not [line for line in own if line.endswith("default")]


def test_records_and_where_they_lie(run: Run, running: BrokerProcess) -> None:
    run("topics", "create", "oldest", "--partitions", "2")
    run("produce", "oldest", "--partition=1", stdin="a\nb\nc\n")
    shown = run("log", "dirs", "--topic=oldest", "--partitions").stdout.splitlines()
    assert shown[0].startswith(f"broker 0\t{running.data_dir}\tok\treplicas 2\tbytes ")
    assert shown[1] == "\toldest-0\tbytes 0\tlag 0"
    deleted = run("topics", "delete-records", "oldest", "--before=2", "--partition=1")
    assert (deleted.exit_code, deleted.stdout) == (0, "oldest\tpartition 1\tbegins at 2\n")
    everything = run("topics", "delete-records", "oldest", "--before=end")
    assert everything.stdout == "oldest\tpartition 0\tbegins at 0\noldest\tpartition 1\tbegins at 3\n"
    producers = run("topics", "producers", "oldest").stdout.splitlines()
    assert len(producers) <= 1
    assert all("\tpartition 1\tproducer " in line for line in producers)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("configs", "get"), 2, "--topic NAME, --broker ID, --all-brokers or --loggers ID"),
        (("configs", "get", "--topic=nowhere"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("configs", "get", "--broker=0", "no.such"), 2, "no such setting: no.such"),
        (("configs", "set", "--topic=nowhere", "retention.ms"), 2, "expected SETTING=VALUE"),
        (("configs", "set", "--topic=nowhere", "retention.ms=1"), 1, "does not exist."),
        (("configs", "set", "--broker=0", "num.partitions=1"), 1, "Cannot update these configs dynamically"),
        (("topics", "delete-records", "nowhere", "--before=end"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("topics", "delete-records", "nowhere", "--before=soon"), 2, "an offset or `end`"),
        (("topics", "create", "wrong", "--config", "retention.ms=x"), 1, "Not a number of type LONG (INVALID_CONFIG)"),
        (("topics", "create", "wrong", "--config", "retention"), 2, "--config takes NAME=VALUE"),
        (("topics", "describe", "nowhere"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("consume", "nowhere", "--timeout", "1"), 1, "nowhere"),
        (("consume", "wrong-place", "-b", "nonsense"), 2, "expected host:port"),
        (("consume", "one", "two"), 2, "give one TOPIC, or join a --group"),
        (("consume", "one", "--no-commit"), 2, "need a --group"),
        (("consume", "--group=g"), 2, "give one or more TOPICs, or a --pattern"),
        (("consume", "one", "--group=g", "--partition=1"), 2, "the group chooses the partitions"),
        (("consume", "one", "--group=g", "--from=7"), 2, "--from takes beginning or end"),
        (("consume", "--pattern=(", "--group=g"), 2, "--pattern '(' is no regular expression"),
        (("consume", "one", "--group=g", "--assignor=fair"), 2, "partition_assignment_strategy knows range"),
        (("topics", "list", "-b", "127.0.0.1:1", "--timeout", "0.3"), 1, "127.0.0.1:1"),
    ],
)
def test_errors_are_one_line(run: Run, arguments: tuple[str, ...], status: int, message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == status
    last = result.stderr.splitlines()[-1]
    assert message in last
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "arguments", [("topics", "list"), ("produce", "lines"), ("consume", "lines"), ("consume", "lines", "--group=g")]
)
def test_an_unreachable_broker_is_named_with_the_reason_within_seconds(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments, "-b", "127.0.0.1:1", stdin="a line\n")
    assert result.exit_code == 1
    assert "o broker can be reached (127.0.0.1:1: connection refused)" in result.stderr


def test_an_unknown_host_is_named(run: Run) -> None:
    assert "unknown host" in run("produce", "lines", "-b", "no.such.host.invalid:1", stdin="a line\n").stderr


def test_bad_lines_and_places_are_named(run: Run) -> None:
    run("topics", "create", "strict", "--if-not-exists")
    assert (
        "no key separator ':' in line 2, 'nokey'"
        in run("produce", "strict", "--key-separator=:", stdin="a:b\nnokey\n").stderr
    )
    assert "strict has no partition 7; it has 1" in run("consume", "strict", "--partition=7").stderr
    assert "not 'yesterday'" in run("consume", "strict", "--from=yesterday").stderr


def test_a_group_goes_on_where_it_was(run: Run) -> None:
    for name in ("grouped-a", "grouped-b"):
        run("topics", "create", name, "--partitions", "2")
        run("produce", name, stdin="".join(f"{name}-{number}\n" for number in range(50)))
    both = ("consume", "grouped-a", "grouped-b", "--group=readers", "--timeout=20")
    first = run(*both, "--max-messages=30")
    assert first.exit_code == 0, first.stderr
    again = run(*both, "--quiet", "--no-commit")
    rest = run(*both, "--quiet", "--assignor=cooperative-sticky", "--instance-id=me")
    assert sorted(again.stdout.splitlines()) == sorted(rest.stdout.splitlines())
    lines = first.stdout.splitlines() + rest.stdout.splitlines()
    assert sorted(lines) == sorted(f"{name}-{number}" for name in ("grouped-a", "grouped-b") for number in range(50))
    late = run("consume", "--pattern=grouped-.*", "--group=latecomers", "--from=end", "--timeout=20")
    assert (late.stdout, late.stderr) == ("", "0 records\n")


def test_the_log_can_be_looked_into(run: Run, running: BrokerProcess) -> None:
    run("topics", "create", "dumped")
    run("produce", "dumped", "--key-separator=:", stdin="a:1\n")
    segment = Path(running.data_dir, "dumped-0", "00000000000000000000.log")
    dumped = run("log", "dump", "--print-records", str(segment))
    assert dumped.exit_code == 0, dumped.stderr
    assert "baseOffset: 0 lastOffset: 0 count: 1" in dumped.stdout
    assert dumped.stdout.count("key: a payload: 1") == 1
    missing = run("log", "dump", str(segment.with_name("00000000000000000009.log")))
    assert missing.exit_code == 2
    assert "does not exist" in missing.stderr
    assert run("log", "dump", str(segment.with_name("partition.metadata"))).exit_code == 0
