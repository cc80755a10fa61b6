"""`barnabas topics`, `produce` and `consume` against a running broker."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas.cli.main import barnabas
from barnabas.testing import BrokerProcess, broker

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def running() -> Iterator[BrokerProcess]:
    with broker(auto_create_topics_enable=False) as process:
        yield process


@pytest.fixture
def run(running: BrokerProcess) -> Run:
    def invoke(*arguments: str, stdin: str = "") -> Result:
        environment = {"BARNABAS_BOOTSTRAP_SERVER": running.bootstrap_servers}
        return CliRunner().invoke(barnabas, arguments, input=stdin, env=environment)

    return invoke


def test_a_topics_life(run: Run) -> None:
    created = run("topics", "create", "life", "--partitions", "3", "--config", "retention.ms=5000")
    assert (created.exit_code, created.stdout) == (0, "life created: partitions 3, replicas 1\n")
    again = run("topics", "create", "life")
    assert (again.exit_code, again.stderr) == (
        1,
        "barnabas: Topic 'life' already exists. (TOPIC_ALREADY_EXISTS)\n",
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

    some = run("consume", "lines", "--partition=1", "--from=5", "--max-messages=2", "--print-offset", "--quiet")
    assert [line.split("\t")[0] for line in some.stdout.splitlines()] == ["Offset:5", "Offset:6"]
    assert run("consume", "lines", "--from=end", "--quiet").stdout == ""
    assert len(run("consume", "lines", "--from=2001-01-01T00:00:00", "--quiet").stdout.splitlines()) == 1002


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("topics", "create", "wrong", "--config", "retention.ms=x"), 1, "Not a number of type LONG (INVALID_CONFIG)"),
        (("topics", "create", "wrong", "--config", "retention"), 2, "--config takes NAME=VALUE"),
        (("topics", "describe", "nowhere"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("consume", "nowhere", "--timeout", "1"), 1, "nowhere"),
        (("consume", "wrong-place", "-b", "nonsense"), 2, "expected host:port"),
        (("topics", "list", "-b", "127.0.0.1:1", "--timeout", "0.3"), 1, "127.0.0.1:1"),
    ],
)
def test_errors_are_one_line(run: Run, arguments: tuple[str, ...], status: int, message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == status
    last = result.stderr.splitlines()[-1]
    assert message in last
    assert "Traceback" not in result.output


def test_bad_lines_and_places_are_named(run: Run) -> None:
    run("topics", "create", "strict", "--if-not-exists")
    assert (
        "no key separator ':' in the line 'nokey'"
        in run("produce", "strict", "--key-separator=:", stdin="nokey\n").stderr
    )
    assert "strict has no partition 7; it has 1" in run("consume", "strict", "--partition=7").stderr
    assert "not 'yesterday'" in run("consume", "strict", "--from=yesterday").stderr


def test_the_log_can_be_looked_into(run: Run, running: BrokerProcess) -> None:
    run("topics", "create", "dumped")
    run("produce", "dumped", "--key-separator=:", stdin="a:1\n")
    segment = Path(running.data_dir, "dumped-0", "00000000000000000000.log")
    dumped = run("log", "dump", "--print-records", str(segment))
    assert dumped.exit_code == 0, dumped.stderr
    assert "baseOffset: 0 lastOffset: 0 count: 1" in dumped.stdout
    assert dumped.stdout.count("key: a payload: 1") == 1
    missing = run("log", "dump", str(segment.with_name("00000000000000000009.log")))
    assert missing.exit_code == 1
    assert missing.stderr.endswith("No such file or directory\n")
    assert run("log", "dump", str(segment.with_name("partition.metadata"))).exit_code == 1
