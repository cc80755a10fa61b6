"""Each option that has the name of an option of Kafka's tools has its meaning, or is a documented difference.

`KAFKA` are the options of Apache Kafka 3.9.2's tools, from their sources. Each option of ours with such a name stands
in `SAME`, whose meanings were compared with those sources, or in the table "Command line" of docs/kafka-facts.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from barnabas.cli.main import barnabas
from barnabas.cli.perf.perf_options import wanted_rate
from barnabas.clients.consumer.offset_reset import parse_duration_ms
from tests.architecture.source_tree import ROOT

KAFKA = {
    "kafka-acls": """
        add allow-host allow-principal authorizer authorizer-properties bootstrap-server cluster
        command-config consumer delegation-token deny-host deny-principal force group idempotent list
        operation principal producer remove resource-pattern-type topic transactional-id user-principal
        zk-tls-config-file
    """,
    "kafka-broker-api-versions": """
        bootstrap-server command-config
    """,
    "kafka-client-metrics": """
        alter bootstrap-server command-config delete describe generate-name interval list match metrics name
    """,
    "kafka-cluster": """
        bootstrap-controller bootstrap-server config id
    """,
    "kafka-configs": """
        add-config add-config-file all alter bootstrap-controller bootstrap-server broker broker-defaults
        broker-logger client client-defaults command-config delete-config describe entity-default
        entity-name entity-type force ip ip-defaults topic user user-defaults zk-tls-config-file zookeeper
    """,
    "kafka-console-consumer": """
        bootstrap-server consumer-property consumer.config enable-systest-events formatter formatter-config
        from-beginning group include isolation-level key-deserializer max-messages offset partition property
        skip-message-on-error timeout-ms topic value-deserializer whitelist
    """,
    "kafka-console-producer": """
        batch-size bootstrap-server broker-list compression-codec line-reader max-block-ms max-memory-bytes
        max-partition-memory-bytes message-send-max-retries metadata-expiry-ms producer-property
        producer.config property reader-config request-required-acks request-timeout-ms retry-backoff-ms
        socket-buffer-size sync timeout topic
    """,
    "kafka-consumer-groups": """
        all-groups all-topics bootstrap-server by-duration command-config delete delete-offsets describe
        dry-run execute export from-file group list members offsets reset-offsets shift-by state timeout
        to-current to-datetime to-earliest to-latest to-offset topic type verbose
    """,
    "kafka-consumer-perf-test": """
        bootstrap-server broker-list consumer.config date-format fetch-size from-latest group hide-header
        messages num-fetch-threads print-metrics reporting-interval show-detailed-stats socket-buffer-size
        threads timeout topic
    """,
    "kafka-delegation-tokens": """
        bootstrap-server command-config create describe expire expiry-time-period hmac max-life-time-period
        owner-principal renew renew-time-period renewer-principal
    """,
    "kafka-delete-records": """
        bootstrap-server command-config offset-json-file
    """,
    "kafka-dump-log": """
        cluster-metadata-decoder deep-iteration files index-sanity-check key-decoder-class max-bytes
        max-message-size offsets-decoder print-data-log remote-log-metadata-decoder skip-record-metadata
        transaction-log-decoder value-decoder-class verify-index-only
    """,
    "kafka-features": """
        bootstrap-controller bootstrap-server command-config dry-run feature metadata unsafe
    """,
    "kafka-get-offsets": """
        bootstrap-server broker-list command-config exclude-internal-topics partitions time topic
        topic-partitions
    """,
    "kafka-leader-election": """
        admin.config all-topic-partitions bootstrap-server election-type partition path-to-json-file topic
    """,
    "kafka-log-dirs": """
        bootstrap-server broker-list command-config describe topic-list
    """,
    "kafka-metadata-quorum": """
        bootstrap-controller bootstrap-server command-config controller-directory-id controller-id dry-run
        human-readable replication status
    """,
    "kafka-producer-perf-test": """
        num-records payload-delimiter payload-file payload-monotonic print-metrics producer-props
        producer.config record-size throughput topic transaction-duration-ms transactional-id
    """,
    "kafka-reassign-partitions": """
        additional bootstrap-server broker-list cancel command-config disable-rack-aware execute generate
        list preserve-throttles reassignment-json-file replica-alter-log-dirs-throttle throttle timeout
        topics-to-move-json-file verify
    """,
    "kafka-replica-verification": """
        broker-list fetch-size max-wait-ms report-interval-ms time topic-white-list topics-include
    """,
    "kafka-server-start": """
        override version
    """,
    "kafka-storage": """
        add-scram cluster-id config feature ignore-formatted initial-controllers no-initial-controllers
        release-version standalone
    """,
    "kafka-streams-application-reset": """
        application-id bootstrap-server bootstrap-servers by-duration config-file dry-run force from-file
        input-topics intermediate-topics internal-topics shift-by to-datetime to-earliest to-latest
        to-offset
    """,
    "kafka-topics": """
        alter at-min-isr-partitions bootstrap-server command-config config create delete delete-config
        describe exclude-internal if-exists if-not-exists list partition-size-limit-per-response partitions
        replica-assignment replication-factor topic topic-id topics-with-overrides unavailable-partitions
        under-min-isr-partitions under-replicated-partitions
    """,
    "kafka-transactions": """
        bootstrap-server broker-id command-config coordinator-epoch duration-filter max-transaction-timeout
        partition producer-epoch producer-id start-offset topic transactional-id version
    """,
    "kafka-verifiable-consumer": """
        assignment-strategy bootstrap-server broker-list consumer.config enable-autocommit group-id
        group-instance-id group-protocol group-remote-assignor max-messages reset-policy session-timeout
        topic verbose
    """,
    "kafka-verifiable-producer": """
        acks bootstrap-server broker-list max-messages message-create-time producer.config repeating-keys
        throughput topic value-prefix
    """,
}
"""The options by tool, without their hyphens."""

RESETS = ("groups reset-offsets",)
ENTRIES = ("acls add", "acls remove")
ACLS = ("acls add", "acls list", "acls remove")
CONFIGS = ("configs get", "configs set", "configs unset")
SENDING = ("perf end-to-end", "perf produce")
QUOTAS = ("quotas set", "quotas unset")

SAME = {
    "--acks": (*SENDING, "produce"),
    "--allow-principal": ENTRIES,
    "--batch-size": SENDING,
    "--broker": ("cluster apis", "cluster features", *CONFIGS, "log dirs"),
    "--broker-id": ("log adopt", "transactions describe-producers", "transactions find-hanging"),
    "--config": ("cluster migrate", "serve"),
    "--consumer": ENTRIES,
    "--deep-iteration": ("log dump",),
    "--delegation-token": ACLS,
    "--deny-principal": ENTRIES,
    "--disable-rack-aware": ("reassign generate",),
    "--dry-run": ("log adopt", "pipeline run"),
    "--execute": RESETS,
    "--export": RESETS,
    "--force": ("acls remove",),
    "--group": (*ACLS, "perf consume"),
    "--idempotent": ENTRIES,
    "--if-exists": ("topics delete",),
    "--if-not-exists": ("topics create",),
    "--ip": QUOTAS,
    "--max-transaction-timeout": ("transactions find-hanging",),
    "--operation": ENTRIES,
    "--partition": (
        "produce",
        "reassign cancel",
        "reassign execute",
        "reassign verify",
        "topics delete-records",
        "transactions find-hanging",
    ),
    "--partitions": ("topics alter", "topics create"),
    "--preserve-throttles": ("reassign cancel", "reassign verify"),
    "--principal": ("acls list",),
    "--print-data-log": ("log dump",),
    "--producer": ENTRIES,
    "--replication-factor": ("topics create",),
    "--resource-pattern-type": ACLS,
    "--shift-by": RESETS,
    "--start-offset": ("transactions abort",),
    "--throttle": ("reassign execute",),
    "--to-current": RESETS,
    "--to-earliest": RESETS,
    "--to-latest": RESETS,
    "--to-offset": RESETS,
    "--topic": (
        *ACLS,
        *CONFIGS,
        "log dirs",
        "log sidecars build",
        "log sidecars check",
        "log sidecars drop",
        "perf consume",
        *SENDING,
        "transactions find-hanging",
    ),
    "--transaction-log-decoder": ("log dump",),
    "--transactional-id": ACLS,
    "--user": QUOTAS,
    "--user-principal": ACLS,
    "--zookeeper": ("cluster migrate",),
}
"""The commands whose option means what it means in Kafka's tools."""


def _commands(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from _commands(child, f"{path} {name}".strip())


def _shared_options() -> set[tuple[str, str]]:
    """(option, command) for each option that has the name of one of Kafka's."""
    names = {f"--{name}" for options in KAFKA.values() for name in options.split()}
    return {
        (name, path)
        for path, command in _commands(barnabas)
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
        if name in names
    }


def _documented_differences(shared: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """(option, command) of each row of the page; a row without commands is about all that have the option."""
    page = (ROOT / "docs" / "kafka-facts.md").read_text(encoding="utf-8")
    section = page.partition("### Command line")[2]
    found: set[tuple[str, str]] = set()
    for cell in re.findall(r"^\| (`--[^|]*) \|", section, re.MULTILINE):
        options = re.findall(r"`(--[a-z-]+)`", cell)
        paths = re.findall(r"`([a-z][a-z -]*)`", cell)
        for option in options:
            found |= {(option, path) for path in paths} if paths else {each for each in shared if each[0] == option}
    return found


def test_each_option_with_a_name_of_kafkas_is_placed() -> None:
    shared = _shared_options()
    assert len(shared) > 200
    same = {(option, path) for option, paths in SAME.items() for path in paths}
    different = _documented_differences(shared)
    # An option that is in neither list is new: compare it with Kafka's tool, and place it.
    assert shared - same - different == set()
    assert (same | different) - shared == set()
    assert same & different == set()


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("P1D", 86_400_000),
        ("p1dt2h3m4.5s", 93_784_500),
        ("PT1,25S", 1_250),
        ("PT1.S", 1_000),
        ("-P1D", -86_400_000),
        ("P-1D", -86_400_000),
        ("-PT-1.5S", 1_500),
        ("PT1M-0.5S", 59_500),
        ("PT+5M", 300_000),
        ("PT0.0009S", 0),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("P1W", None),
        ("P1Y", None),
        ("1D", None),
        ("PT1.1234567890S", None),
        ("PT.5S", None),
    ],
)
def test_durations_are_those_of_java(text: str, duration_ms: int | None) -> None:
    assert parse_duration_ms(text) == duration_ms


def test_a_negative_throughput_is_no_limit() -> None:
    assert wanted_rate(-1) is None
    assert wanted_rate(-7.5) is None
    assert wanted_rate(0.5) == 0.5
    for wrong in (0.0, float("nan")):
        with pytest.raises(click.UsageError, match="--throughput takes"):
            wanted_rate(wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("topics create t --replication-factor 32768", "is not in the range 1<=x<=32767"),
        ("consume t --max-messages -2", "is not in the range -1<=x"),
        ("groups list --state stable,no-such", "'no-such' is not one of"),
        ("groups list --type classic,no-such", "'no-such' is not one of"),
        ("acls add --allow-principal User:a --topic t --operation IdempotentWrite", "the operations of Topic are"),
        ("acls remove --allow-principal User:a --group g --operation write --force", "the operations of Group are"),
        ("acls add --allow-principal User:a --consumer --topic t --group g --cluster", "--consumer takes neither"),
    ],
)
def test_what_kafkas_tools_refuse_is_refused(arguments: str, message: str) -> None:
    result = CliRunner().invoke(barnabas, arguments.split())
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")


def test_the_lists_of_options_have_no_doubles() -> None:
    for tool, options in KAFKA.items():
        assert max(Counter(options.split()).values()) == 1, tool
