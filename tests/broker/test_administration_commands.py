"""`barnabas topics alter`, `elect-leaders`, `reassign`, `quotas`, `cluster` and brokers' settings, on a broker."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from barnabas.testing import BrokerProcess
from tests.support.command_line import Run
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 30


wait_for = partial(wait_until, seconds=PATIENCE_SECONDS)
"""Changes of settings come by notices, some milliseconds after the answer, as in Kafka."""


def test_a_topic_gets_more_partitions(run: Run) -> None:
    run("topics", "create", "growing", "--partitions=2")
    tried = run("topics", "alter", "growing", "--partitions=3", "--validate-only")
    assert (tried.exit_code, tried.stdout) == (0, "growing could have 3 partitions\n")
    grown = run("topics", "alter", "growing", "--partitions=3", "--assign=0")
    assert (grown.exit_code, grown.stdout) == (0, "growing has 3 partitions\n")
    assert len(run("topics", "describe", "growing").stdout.splitlines()) == 1 + 3
    shrunk = run("topics", "alter", "growing", "--partitions=1")
    assert shrunk.exit_code == 1
    assert "would not be an increase" in shrunk.stderr or "partitions" in shrunk.stderr
    assert "INVALID_PARTITIONS" in shrunk.stderr


def test_leaders_are_elected(run: Run) -> None:
    run("topics", "create", "led")
    for arguments in ((), ("led",), ("led", "--partition=0"), ("led", "--unclean")):
        elected = run("topics", "elect-leaders", *arguments)
        assert (elected.exit_code, elected.stdout) == (0, "no election was needed\n"), elected.stderr


def test_partitions_are_moved(run: Run, tmp_path: Path) -> None:
    run("topics", "create", "moved", "--partitions=2")
    started = run("reassign", "execute", "moved", "--partition=1", "--to=0")
    assert (started.exit_code, started.stdout) == (0, "moved\tpartition 1\treassignment started\n")
    refused = run("reassign", "execute", "moved", "--to=0,7")
    assert refused.exit_code == 1
    assert "INVALID_REPLICA_ASSIGNMENT" in refused.stderr
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [0]}]}')
    assert run("reassign", "execute", "--plan", str(plan)).stdout == "moved\tpartition 0\treassignment started\n"
    plan.write_text('{"partitions": [{"topic": "moved"}]}')
    nonsense = run("reassign", "execute", "--plan", str(plan))
    assert (nonsense.exit_code, "not a reassignment plan" in nonsense.stderr) == (2, True)
    assert run("reassign", "list").stdout == ""
    assert run("reassign", "list", "moved").exit_code == 0
    assert run("reassign", "cancel", "moved").stdout == "no reassignment was in progress\n"


def test_quotas_are_set_shown_and_taken_away(run: Run) -> None:
    whose = ("--user=anna", "--client-id-default")
    tried = run("quotas", "set", "request_percentage=12.5", *whose, "--validate-only")
    assert (tried.exit_code, tried.stdout) == (0, "user anna, client-id default could be changed\n"), tried.stderr
    assert run("quotas", "get").stdout == ""
    changed = run("quotas", "set", "producer_byte_rate=1048576", "request_percentage=12.5", *whose)
    assert changed.stdout == "user anna, client-id default changed\n", changed.stderr
    run("quotas", "set", "connection_creation_rate=10", "--ip-default")
    lines = run("quotas", "get").stdout.splitlines()
    assert sorted(lines) == [
        "ip default\tconnection_creation_rate=10",
        "user anna, client-id default\tproducer_byte_rate=1048576\trequest_percentage=12.5",
    ]
    assert run("quotas", "get", "--user=anna").stdout.splitlines() == lines[1:]
    assert run("quotas", "get", "--user=anna", "--strict").stdout == ""
    run("quotas", "unset", "producer_byte_rate", "request_percentage", *whose)
    run("quotas", "unset", "connection_creation_rate", "--ip-default")
    assert run("quotas", "get").stdout == ""


def test_users_are_added_listed_and_deleted(run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("alice knows\n")
    file = f"--password-file={secret}"
    added = run("users", "add", "alice", file)
    assert (added.exit_code, added.stdout) == (0, "The user alice can log in by SCRAM-SHA-512\n"), added.stderr
    run("users", "add", "alice", file, "--mechanism=SCRAM-SHA-256", "--iterations=8192")
    assert [line.split("\t")[1:] for line in run("users", "list").stdout.splitlines()] == [
        ["user alice", "mechanism SCRAM-SHA-256", "iterations 8192"],
        ["user alice", "mechanism SCRAM-SHA-512", "iterations 4096"],
    ]
    deleted = run("users", "delete", "alice", "--mechanism=SCRAM-SHA-256")
    assert deleted.stdout == "The user alice can no longer log in by SCRAM-SHA-256\n", deleted.stderr
    assert run("users", "delete", "alice").stdout == "The user alice can no longer log in by SCRAM-SHA-512\n"
    gone = run("users", "delete", "alice")
    assert gone.exit_code == 1
    assert "The user alice has no SCRAM credentials" in gone.stderr
    secret.write_text("\n")
    assert run("users", "add", "alice", file).exit_code == 2


def test_settings_of_brokers(run: Run) -> None:
    changed = run("configs", "set", "--all-brokers", "log.cleaner.threads=2")
    assert (changed.exit_code, changed.stdout) == (0, "all brokers changed\n"), changed.stderr
    wait_for(lambda: run("configs", "get", "--all-brokers").stdout == "log.cleaner.threads=2\tall brokers, dynamic\n")
    wait_for(lambda: "log.cleaner.threads=2\tall brokers, dynamic" in run("configs", "get", "--broker=0").stdout)
    own = run("configs", "set", "--broker=0", "log.cleaner.threads=1")
    assert (own.exit_code, own.stdout) == (0, "broker 0 changed\n"), own.stderr
    wait_for(lambda: "log.cleaner.threads=1\tbroker, dynamic" in run("configs", "get", "--broker=0").stdout)
    refused = run("configs", "set", "--broker=0", "num.io.threads=500")
    assert refused.exit_code == 1
    assert "INVALID_REQUEST" in refused.stderr or "INVALID_CONFIG" in refused.stderr
    tiers = "remote.log.index.file.cache.total.size.bytes"
    kept = run("configs", "set", "--broker=0", f"{tiers}=2", "log.cleaner.backoff.ms=15000")
    assert (kept.exit_code, kept.stdout) == (0, "broker 0 changed\n")
    assert kept.stderr == f"{tiers}: a Barnabas broker keeps it, and nothing acts on it: there is no tiered storage\n"
    run("configs", "unset", "--broker=0", tiers, "log.cleaner.backoff.ms")
    run("configs", "unset", "--broker=0", "log.cleaner.threads")
    run("configs", "unset", "--all-brokers", "log.cleaner.threads")
    wait_for(lambda: run("configs", "get", "--all-brokers").stdout == "")


def test_log_levels(run: Run) -> None:
    level = "barnabas.network.processor=DEBUG"
    changed = run("configs", "set", "--loggers=0", level)
    assert (changed.exit_code, changed.stdout) == (0, "loggers of broker 0 changed\n"), changed.stderr
    assert f"{level}\tlogger" in run("configs", "get", "--loggers=0", "--all").stdout.splitlines()


def test_the_cluster(run: Run, running: BrokerProcess) -> None:
    head, only, client = run("cluster", "describe").stdout.splitlines()
    assert head == f"cluster {running.cluster_id}\tcontroller 0\tbrokers 1"
    assert only == f"\tbroker 0\taddress {running.bootstrap_servers}\track -"
    assert client == f"client {run('--version').stdout.rstrip()}"
    health = run("cluster", "health")
    assert health.stdout.startswith("controller 0\tbrokers 1\tpartitions ")
    # A topic of another test may be going away just now.
    is_healthy = "\tno leader 0\tbelow min.insync.replicas 0\tunder-replicated 0\n" in health.stdout
    assert health.exit_code == (0 if is_healthy else 1)
    apis = run("cluster", "apis", "--broker=0").stdout.splitlines()
    assert "\tkey 18\tAPI API_VERSIONS\tversions 0-4\tusable 4" in apis
    features = run("cluster", "features").stdout
    assert features == "\tfeature transaction.version\tsupported 0-2\tin force -\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("topics", "alter", "nowhere", "--partitions=3"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("topics", "alter", "nowhere", "--partitions=3", "--assign=x"), 2, "--assign takes broker ids"),
        (("topics", "elect-leaders", "--unclean"), 2, "--partition and --unclean need the name of a topic"),
        (("topics", "elect-leaders", "nowhere"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("reassign", "execute", "nowhere"), 2, "NAME and --to, or --plan FILE"),
        (("reassign", "execute", "nowhere", "--to=0"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("quotas", "set", "producer_byte_rate=1"), 2, "say whose quotas"),
        (("quotas", "set", "producer_byte_rate=x", "--user=anna"), 2, "producer_byte_rate takes a number"),
        (("quotas", "set", "no_such_quota=1", "--user=anna"), 1, "INVALID_REQUEST"),
        (("quotas", "get", "--user=anna", "--user-default"), 2, "--user or --user-default, not both"),
        (("configs", "get", "--broker=0", "--all-brokers"), 2, "say whose settings"),
        (("configs", "set", "--broker=0", "broker.id=3"), 1, "broker.id"),
    ],
)
def test_errors_are_one_line(run: Run, arguments: tuple[str, ...], status: int, message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == status
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.output
