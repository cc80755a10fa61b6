"""docs/metrics.md, made from what a running broker has. `make docs` writes it; a test compares it.

A program of its own, since a broker settles the process it runs in:

    python -m tests.architecture.metrics_page            # write the page
    python -m tests.architecture.metrics_page --print    # show it
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from itertools import groupby
from types import SimpleNamespace
from typing import Any

from barnabas.broker.broker_server import BrokerServer
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.console.metrics_collector import help_of, is_counter, prometheus_names
from barnabas.metrics.metrics_registry import Sample
from barnabas.protocol.messages.quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.fetcher.fetcher_thread import FetcherStats
from barnabas.replica.partitions.partition_append import PartitionAppend
from barnabas.replica.replica_metrics import FetcherThreadMetrics
from barnabas.replica.requests.waiting_requests import ProduceExpirations
from barnabas.runtime.lazy import Lazy
from barnabas.storage.log_environment import RecoveryProgress
from barnabas.storage.storage_metrics import LoadingMetrics
from barnabas.zk.zookeeper.zookeeper_metrics import ZookeeperMetrics
from tests.architecture.exporter_rules import missing_series
from tests.architecture.source_tree import ROOT
from tests.support.raw_client import CLIENT_ID, RawClient, make_batch

PATH = "docs/metrics.md"
TABLES = "## All metrics\n"
"""What follows it is made; what comes before it is written by hand."""
QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "control.plane.listener.name": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
}


def samples_of_a_cluster() -> list[Sample]:
    """What a lone broker that runs has not: followers, ZooKeeper, logs that are being loaded, produces that failed."""
    key = TopicPartition("t", 0)
    fetcher: Any = SimpleNamespace(name="ReplicaFetcherThread-0-1", stats=FetcherStats(), states={})
    fetcher.states[key] = SimpleNamespace(lag=0)
    recovery = RecoveryProgress()
    recovery.note("/data", 1)
    log_manager: Any = SimpleNamespace(loading=SimpleNamespace(remaining={"/data": 1}), recovery=recovery)
    expirations = ProduceExpirations()
    expirations.count([PartitionAppend("t", 0, None, None)])
    fetchers: Lazy[Any] = Lazy(lambda: SimpleNamespace(threads=[fetcher]))
    fetchers()
    families = (
        FetcherThreadMetrics(fetchers),
        ZookeeperMetrics(lambda: 0),
        LoadingMetrics(log_manager),
        expirations,
    )
    return [sample for family in families for sample in family.samples()]


def samples_of_a_running_broker() -> list[Sample]:
    """Everything that a broker with a control plane counts, once a client with quotas has been there."""
    with tempfile.TemporaryDirectory() as data_dir:
        settings = SERVER_DEFAULTS | LISTENERS | {"log.dirs": data_dir}
        broker = BrokerServer(KafkaConfig.parse(settings, "the page"))
        broker.startup()
        try:
            ports = {bound.listener_name: bound.port for bound in broker.bound_endpoints}
            server: Any = SimpleNamespace(host="127.0.0.1", port=ports["PLAINTEXT"])
            with RawClient(server) as client:
                return _after_traffic(broker, client)
        finally:
            broker.shutdown()


def _after_traffic(broker: BrokerServer, client: RawClient) -> list[Sample]:
    entity = AlterClientQuotasRequest.EntityData("client-id", CLIENT_ID)
    operations = [AlterClientQuotasRequest.OpData(key, 1e9, False) for key in QUOTAS]
    entry = AlterClientQuotasRequest.EntryData([entity], operations)
    client.call(AlterClientQuotasRequest([entry]), 1, AlterClientQuotasResponse)
    deadline = time.monotonic() + 30
    number = 0
    while time.monotonic() < deadline:
        number += 1
        client.create_topic(f"t{number}")
        client.produce(f"t{number}", make_batch([b"v"]))
        client.fetch(f"t{number}", 0)
        client.metadata(f"t{number}", 3, create=True)
        samples = broker.metrics.collect()
        # Requests are counted a moment after their answer, quotas are in force a moment after theirs.
        if {"mutation-rate", "byte-rate", "DeprecatedRequestsPerSec"} <= {sample.name.name for sample in samples}:
            return samples
    raise TimeoutError("the broker never had all its metrics")


def page(samples: list[Sample]) -> str:
    """The whole page."""
    rows = {help_of(sample.name): sample for sample in samples}
    written = (ROOT / PATH).read_text(encoding="utf-8").partition(TABLES)[0]
    lines = [written + TABLES]
    by_kind = sorted(rows.items(), key=lambda row: (row[1].name.group, row[1].name.type, row[0]))
    for (group, kind), of_kind in groupby(by_kind, key=lambda row: (row[1].name.group, row[1].name.type)):
        lines += [f"### {group}, {kind}", "", "| metric | for Prometheus | what it says |", "|---|---|---|"]
        lines += [_row(sample) for _, sample in of_kind]
        lines.append("")
    return "\n".join(lines)


def _row(sample: Sample) -> str:
    name = sample.name
    tags = "".join(f", {tag}" for tag, _ in name.tags)
    shape = "summary" if sample.distribution is not None else "counter" if is_counter(sample) else "gauge"
    published = ", ".join(f"`{each}`" for each in prometheus_names(sample))
    return f"| `{name.name}`{tags} | {published} {shape} | {sample.description} |"


def main() -> None:
    """Write or show the page."""
    logging.disable()
    samples = [*samples_of_a_running_broker(), *samples_of_a_cluster()]
    text = page(samples)
    if "--print" in sys.argv:
        sys.stdout.write(text)
        expected, missing = missing_series(samples)
        sys.stderr.write("\n".join([f"{expected} series of the exporter's example", *missing]))
    else:
        (ROOT / PATH).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
