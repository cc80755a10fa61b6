"""`barnabas cluster`, `reassign` and `topics describe` with three brokers, one of which moves, freezes or dies."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from click.testing import Result

from barnabas.testing import BrokerProcess, Cluster
from tests.support.command_line import Run, run_against
from tests.support.numbered_records import eventually, producing, values_of
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def run(three: Cluster) -> Run:
    return run_against(three.bootstrap_servers)


def replicas_of(three: Cluster, topic: str) -> tuple[int, ...]:
    """The replicas of the first partition, once every broker that runs has heard of the topic."""
    found = [eventually(partial(_known_replicas, broker, topic)) for broker in three.brokers if broker.is_running]
    return tuple(found[0])


def _known_replicas(broker: BrokerProcess, topic: str) -> list[int] | None:
    with RawClient(broker) as client:
        partitions = client.metadata(topic).partitions
    return partitions[0].replica_nodes if partitions else None


def test_a_partition_moves_while_it_is_written(three: Cluster, run: Run, tmp_path: Path) -> None:
    placed = tmp_path / "place.json"
    assert run("topics", "create", "moved", "--partitions=1", "--replication-factor=2").exit_code == 0
    replicas_of(three, "moved")
    # From wherever the controller has put it to 0,1: the start of what is tested.
    placed.write_text('{"partitions": [{"topic": "moved", "partition": 0, "replicas": [0, 1]}]}')
    run("reassign", "execute", "--plan", str(placed), "--throttle=-1")
    eventually(lambda: run("reassign", "verify", "--plan", str(placed)).exit_code == 0)
    assert throttles(run) == []
    before, plan = tmp_path / "before.json", tmp_path / "plan.json"
    with producing(three.bootstrap_servers, "moved") as acknowledged:
        generated = run("reassign", "generate", "moved", "--to=1,2", "--current", str(before))
        assert json.loads(before.read_text())["partitions"][0]["replicas"] == [0, 1]
        plan.write_text(generated.stdout)
        wanted = json.loads(generated.stdout)["partitions"][0]["replicas"]
        assert sorted(wanted) == [1, 2]
        executed = run("reassign", "execute", "--plan", str(plan), "--throttle=5000000000")
        assert executed.stdout == "moved\tpartition 0\treassignment started\n", executed.stderr
        limits = [
            "follower.replication.throttled.replicas=0:2",
            "leader.replication.throttled.replicas=0:0,0:1",
            *["follower.replication.throttled.rate=5000000000", "leader.replication.throttled.rate=5000000000"] * 3,
        ]
        # Changes of settings come by notices, after the answer.
        eventually(lambda: throttles(run) == limits)
        verified = eventually(lambda: done_or_none(run("reassign", "verify", "--plan", str(plan))))
        assert verified.stdout == "moved\tpartition 0\treassignment complete\nthrottle removed\n"
        eventually(lambda: throttles(run) == [])
        moved_at = len(acknowledged)
        eventually(lambda: len(acknowledged) > moved_at)
    assert replicas_of(three, "moved") == tuple(wanted)
    assert values_of(three.bootstrap_servers, "moved", len(acknowledged)) == acknowledged
    assert run("reassign", "verify", "--plan", str(before)).exit_code == 1
    eventually(lambda: not Path(three.brokers[0].data_dir, "moved-0").exists())


def throttles(run: Run) -> list[str]:
    """Return the settings of throttles of the topic, then of each broker."""
    found = []
    for whose in ("--topic=moved", "--broker=0", "--broker=1", "--broker=2"):
        lines = run("configs", "get", whose).stdout.splitlines()
        found += sorted(line.split("\t")[0] for line in lines if "throttled" in line)
    return found


def done_or_none(verified: Result) -> Result | None:
    return verified if verified.exit_code == 0 else None


def test_a_move_to_a_broker_that_dies_is_listed_and_cancelled(three: Cluster, run: Run, tmp_path: Path) -> None:
    assert run("topics", "create", "stuck", "--partitions=1", "--replication-factor=2").exit_code == 0
    start = replicas_of(three, "stuck")
    (other,) = {0, 1, 2} - set(start)
    # The controller must live on.
    if other == three.controller_id:
        three.restart(other)
        eventually(lambda: three.controller_id not in (None, other))
    plan = tmp_path / "plan.json"
    replicas = [start[0], other]
    plan.write_text(json.dumps({"partitions": [{"topic": "stuck", "partition": 0, "replicas": replicas}]}))
    # Frozen, the broker is still registered, and cannot finish the move before it dies. A client may choose any
    # broker for some requests: this one gets the addresses of the others, and a plan needs the controller alone.
    three.pause(other)
    living = run_against(",".join(three.brokers[broker].bootstrap_servers for broker in start))
    executed = living("reassign", "execute", "--timeout=120", "--plan", str(plan))
    three.kill(other)
    assert executed.stdout == "stuck\tpartition 0\treassignment started\n"
    verified = run("reassign", "verify", "--plan", str(plan))
    assert (verified.exit_code, verified.stdout) == (1, "stuck\tpartition 0\treassignment in progress\n")
    (listed,) = json.loads(run("reassign", "list", "--json").stdout)["reassignments"]
    assert (listed["topic"], listed["adding"], listed["removing"]) == ("stuck", [other], [start[1]])
    assert run("reassign", "cancel", "stuck").stdout == "stuck\tpartition 0\treassignment cancelled\n"
    eventually(lambda: replicas_of(three, "stuck") == start)
    assert run("reassign", "list").stdout == ""
    assert run("reassign", "cancel").stdout == "no reassignment was in progress\n"
    three.restart(other)


def test_what_a_dead_broker_leaves_behind(three: Cluster, run: Run) -> None:
    assert run("topics", "create", "watched", "--partitions=3", "--config=min.insync.replicas=2").exit_code == 0
    eventually(lambda: run("cluster", "health").exit_code == 0)
    everything = json.loads(run("cluster", "health", "--all", "--json").stdout)
    lags = {each["partition"]: each["lag"] for each in everything["partitions"] if each["topic"] == "watched"}
    assert all(lag == {str(broker): 0 for broker in lag} and len(lag) == 2 for lag in lags.values())
    dead = three.controller_id
    assert dead is not None
    three.kill(dead)

    # Any broker may answer, and each learns of the death in its own time.
    def lines(*arguments: str) -> list[str]:
        return run("topics", "describe", "watched", *arguments).stdout.splitlines()

    eventually(lambda: len(lines("--at-min-isr")) == len(lines("--under-replicated")) == 3)
    eventually(lambda: lines("--unavailable") == lines("--under-min-isr") == [])
    eventually(lambda: f"\tbroker {dead}\taddress not registered\t" in run("cluster", "brokers").stdout)

    def is_degraded() -> bool:
        health = run("cluster", "health")
        # How far a dead follower is behind is not known.
        return (
            health.exit_code == 1 and "\tproblem under-replicated\t" in health.stdout and f"{dead}:?" in health.stdout
        )

    eventually(is_degraded)
    three.restart(dead)
    eventually(lambda: run("cluster", "health").exit_code == 0)

    def is_back() -> bool:
        brokers = json.loads(run("cluster", "brokers", "--json").stdout)["brokers"]
        (found,) = [each for each in brokers if each["id"] == dead]
        in_order: bool = (found["not_in_sync"], found["failed_log_dirs"]) == (0, 0)
        return in_order and found["address"] == three.brokers[dead].bootstrap_servers

    eventually(is_back)
