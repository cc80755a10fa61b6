"""What does not exist, or cannot be reached, is said at once and in words: by the commands and by the test kit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from barnabas.cli.main import barnabas
from barnabas.clients import aio
from barnabas.clients.errors import Unreachable
from barnabas.clients.producer import Producer
from barnabas.testing import BrokerFailed, BrokerProcess, broker, cluster


@pytest.fixture(scope="module")
def running() -> Iterator[BrokerProcess]:
    with broker(auto_create_topics_enable=False, num_partitions=3) as made:
        result = CliRunner().invoke(barnabas, ["topics", "create", "t", "-b", made.bootstrap_servers])
        assert result.exit_code == 0, result.output
        yield made


NO_BROKER = "There is no broker 5; the brokers of the cluster are 0. (BROKER_ID_NOT_REGISTERED)"
NO_TOPIC = "there is no topic nosuch"


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ("configs get --broker 5", 1, NO_BROKER),
        ("configs set --broker 5 num.io.threads=3", 1, NO_BROKER),
        ("configs get --loggers 5", 1, NO_BROKER),
        ("log dirs --broker 5", 1, NO_BROKER),
        ("cluster apis --broker 5", 1, NO_BROKER),
        ("produce t --partition 77", 2, "t has no partition 77; it has 3, counted from 0"),
        ("produce nosuch", 1, NO_TOPIC),
        ("consume nosuch", 1, NO_TOPIC),
        ("consume nosuch --group g", 1, NO_TOPIC),
        ("consume nosuch --group g --follow", 1, NO_TOPIC),
        ("consume --group g --pattern nosuch.*", 2, "no topic matches --pattern 'nosuch.*'"),
        ("topics delete-records t --before 0 --partition 9", 2, "t has no partition 9; it has 3, counted from 0"),
        ("perf consume --topic nosuch --records 1", 1, NO_TOPIC),
        ("perf produce --topic nosuch --records 1", 1, NO_TOPIC),
        ("perf end-to-end --topic nosuch --records 1", 1, NO_TOPIC),
    ],
)
def test_a_command_names_what_does_not_exist(running: BrokerProcess, arguments: str, status: int, text: str) -> None:
    # A wait for what cannot come would last for an hour.
    timeout = [] if arguments.startswith(("perf produce", "perf consume")) else ["--timeout", "3600"]
    command = [*arguments.split(), *timeout, "-b", running.bootstrap_servers]
    result = CliRunner().invoke(barnabas, command, input="line\n")
    assert (result.exit_code, result.stderr.count("\n")) == (status, 1), result.output
    assert text in result.stderr


def test_the_migration_says_in_one_line_that_zookeeper_cannot_be_reached(tmp_path: Path) -> None:
    # A process of its own: what other loggers print would come there.
    command = [sys.executable, "-m", "barnabas", "cluster", "migrate", str(tmp_path), "--zookeeper", "127.0.0.1:1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended.stderr
    assert "127.0.0.1:1 cannot be reached" in ended.stderr


def test_the_migration_shows_what_is_logged_beside_kazoos_attempts(tmp_path: Path) -> None:
    shown = (
        "import logging, sys; from barnabas.cli.main import barnabas\n"
        f"sys.argv[1:] = ['cluster', 'migrate', {str(tmp_path)!r}, '--zookeeper', '127.0.0.1:1']\n"
        "try: barnabas()\n"
        "finally: logging.getLogger('barnabas.zk.zookeeper.zookeeper_store').warning('The session has expired')"
    )
    ended = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, timeout=60, check=False)
    first, second = ended.stderr.splitlines()
    assert "127.0.0.1:1 cannot be reached" in first
    assert second == "The session has expired"


def test_a_transactional_producer_names_the_brokers_that_it_cannot_reach() -> None:
    with (
        Producer("127.0.0.1:9", transactional_id="t", bootstrap_timeout_ms=50, max_block_ms=900_000) as producer,
        pytest.raises(Unreachable, match=r"No broker can be reached \(127\.0\.0\.1:9: connection refused\)"),
    ):
        producer.init_transactions()

    async def asynchronously() -> None:
        made = aio.Producer("127.0.0.1:9", transactional_id="t", bootstrap_timeout_ms=50, max_block_ms=900_000)
        async with made as producer:
            await producer.init_transactions()

    with pytest.raises(Unreachable, match=r"No broker can be reached \(127\.0\.0\.1:9: connection refused\)"):
        asyncio.run(asynchronously())


def start(context: AbstractContextManager[Any]) -> None:
    with context:
        raise AssertionError("it started")


@pytest.mark.parametrize("make", [broker, cluster])
@pytest.mark.parametrize("security", ["plaintext", "ssl"])
def test_the_kit_names_a_directory_that_it_cannot_use(make: Any, security: str) -> None:
    with pytest.raises(BrokerFailed, match=r"data_dir='/proc/x' cannot be used: /proc/x.*: No such file or directory"):
        start(make(data_dir="/proc/x", security=security))


def test_the_kit_makes_the_directories_above_the_data(tmp_path: Path) -> None:
    with broker(data_dir=str(tmp_path / "a" / "b" / "data")) as made:
        assert made.is_running


def test_the_kit_names_an_interpreter_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(BrokerFailed, match="the interpreter '/nosuch/python' cannot be started: No such file"):
        BrokerProcess(str(tmp_path / "data"), python=["/nosuch/python"]).start()
