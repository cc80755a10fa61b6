"""`barnabas perf` against a running broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from barnabas.testing import BrokerProcess, broker
from tests.support.command_line import Run, run_against
from tests.support.thread_signals import other_threads, signal_thread


@pytest.fixture(scope="module")
def running() -> Iterator[BrokerProcess]:
    with broker(num_partitions=3) as process:
        yield process


@pytest.fixture
def run(running: BrokerProcess) -> Run:
    return run_against(running.bootstrap_servers, "perf")


def test_what_is_produced_is_consumed(run: Run) -> None:
    produced = run(
        "produce", "--topic=load", "--records=2000", "--size=200", "--warmup=500", "--compression=lz4", "--json",
        "--linger-ms=5", "--batch-size=4000", "--acks=1", "--property=max.in.flight.requests.per.connection=2",
    )  # fmt: skip
    assert produced.exit_code == 0, produced.stderr
    result = json.loads(produced.stdout)
    assert (result["command"], result["topic"], result["size"], result["records"]) == ("produce", "load", 200, 2000)
    assert result["interrupted"] is False
    assert result["megabytes"] == pytest.approx(2000 * 200 / 1_048_576, abs=1e-6)
    assert result["records_per_second"] == pytest.approx(2000 / result["seconds"], rel=0.01)
    latency = result["latency_ms"]
    assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"] <= latency["p999"] <= latency["max"]

    consumed = run("consume", "--topic=load", "--warmup=400", "--records=2100", "--json", "--interval=0.05")
    assert consumed.exit_code == 0, consumed.stderr
    result = json.loads(consumed.stdout)
    assert result["records"] == 2100
    assert result["fetch_seconds"] <= result["seconds"]
    assert result["megabytes"] == pytest.approx(2100 * 200 / 1_048_576, abs=1e-6)

    everything = run("consume", "--topic=load", "--idle=0.5", "--property=max.poll.records=7")
    names, figures = everything.stdout.splitlines()
    by_name = dict(zip(names.split(", "), figures.split(", "), strict=True))
    assert by_name["data.consumed.in.nMsg"] == "2500"
    assert float(by_name["nMsg.sec"]) > 0
    assert int(by_name["rebalance.time.ms"]) > 0


@pytest.mark.parametrize("pace", [(), ("--throughput=2000", "--acks=0")], ids=["one by one", "at a rate"])
def test_records_come_back_to_the_end(run: Run, pace: tuple[str, ...]) -> None:
    done = run("end-to-end", "--topic=trips", "--records=200", "--warmup=10", "--size=50", *pace)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("200 records sent, ")
    assert " ms 99.9th." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("produce", "--topic=load", "--property=lingerms=5"), "there is no setting lingerms; did you mean linger.ms?"),
        (("produce", "--topic=load", "--throughput=0"), "--throughput takes records per second, or -1"),
        (("end-to-end", "--topic=load", "--size=15"), "15 is not in the range"),
        (("produce", "--topic=load", "--property=compression.type=best", "--compression=lz4", "--records=1"), ""),
        (("produce",), "Missing option '--topic'"),
    ],
)
def test_wrong_arguments_are_named(run: Run, arguments: tuple[str, ...], text: str) -> None:
    done = run(*arguments)
    # An option of the command wins over a property.
    assert done.exit_code == (2 if text else 0), done.stderr
    assert text in done.stderr


def test_a_record_that_fails_ends_the_run(run: Run) -> None:
    done = run("produce", "--topic=load", "--size=2000000", "--records=10")
    assert done.exit_code == 1
    assert ": The message is 2000" in done.stderr
    assert "max.request.size" in done.stderr
    bad_topic = run("produce", "--topic=a b", "--records=1")
    assert bad_topic.exit_code == 1
    assert "INVALID_TOPIC" in bad_topic.stderr


def test_an_interrupt_prints_what_was_measured(running: BrokerProcess) -> None:
    command = [
        sys.executable, "-m", "barnabas", "perf", "produce", "-b", running.bootstrap_servers, "--topic=slow",
        "--records=1000000", "--throughput=200", "--interval=0.1", "--json",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ, process_group=0
    )
    try:
        assert process.stderr is not None
        # The first line with records: the run is under way.
        while not (line := process.stderr.readline()) or line.startswith("0 records"):
            assert process.poll() is None
        signal_thread(process.pid, other_threads(process.pid)[-1], signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, stderr
    result = json.loads(stdout)
    assert result["interrupted"] is True
    assert 0 < result["records"] < 1_000_000
    assert " records sent, " in line
