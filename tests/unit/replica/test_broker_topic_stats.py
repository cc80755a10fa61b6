"""The counters by topic (kafka-facts: topic metrics): what is counted, and that no thread loses a count."""

from __future__ import annotations

import threading

from barnabas.metrics.meter import NO_RATES
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.protocol.errors import ErrorCode
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.replica.broker_topic_stats import COUNTERS, BrokerTopicStats
from barnabas.replica.partitions.partition_fetch import PartitionFetch
from barnabas.replica.replica_metrics import LATE_TRANSACTION_BUFFER_MS, register_replica_metrics
from barnabas.storage.log_append_info import AppendOrigin
from barnabas.storage.log_environment import LogManagerConfig
from tests.unit.replica.replica_harness import ANOTHER, US, Replicas
from tests.unit.storage.log_harness import NOW, Broker, batch, log_config, produced


def test_a_produce_is_counted_before_and_after_its_append() -> None:
    replicas = Replicas()
    replicas.lead()
    replicas.append(("topic", 0, batch(3)), ("topic", 5, batch(2)))
    stats = replicas.manager.topic_stats.totals("topic")
    assert (stats.total_produce_requests, stats.messages_in, stats.bytes_in) == (2, 3, len(batch(3)))
    assert stats.failed_produce_requests == 0, "an unknown partition is no failure of ours"


def test_rejected_bytes_are_those_the_client_sent() -> None:
    replicas = Replicas(Broker(config=log_config(max_message_bytes=100)))
    replicas.lead()
    (refused,) = replicas.append(("topic", 0, batch(3, size=200)))
    stats = replicas.manager.topic_stats.totals("topic")
    assert refused.error is ErrorCode.MESSAGE_TOO_LARGE
    assert (stats.bytes_rejected, stats.bytes_in, stats.messages_in) == (len(batch(3, size=200)), 0, 0)
    assert stats.failed_produce_requests == 0


def test_unexpected_failures_only() -> None:
    replicas = Replicas(Broker(config=log_config(min_insync_replicas=2)))
    replicas.lead(replicas=(US, ANOTHER))
    damaged = bytearray(batch())
    damaged[-1] ^= 1
    replicas.append(("topic", 0, bytes(damaged)), acks=1)
    assert replicas.manager.topic_stats.all_topics.failed_produce_requests == 0
    replicas.append(("topic", 0, batch()), acks=-1)
    assert replicas.manager.topic_stats.all_topics.failed_produce_requests == 1, "too few replicas"


def test_fetches_and_what_goes_out() -> None:
    replicas = Replicas()
    replicas.brokers_alive(US, ANOTHER)
    replicas.lead(isr=(US, ANOTHER))
    replicas.append(("topic", 0, batch(3)))
    replicas.follow(0)
    replicas.follow(3)
    waiting = replicas.fetch(PartitionFetch("topic", 0, 3, 1 << 20), max_wait_ms=100)
    replicas.fetch(PartitionFetch("topic", 0, 0, 1 << 20), PartitionFetch("topic", 0, 99, 1 << 20))
    replicas.pass_time(101)
    assert len(waiting) == 1
    stats = replicas.manager.topic_stats.totals("topic")
    assert (stats.total_fetch_requests, stats.failed_fetch_requests) == (5, 0)
    assert (stats.bytes_out, stats.replication_bytes_out) == (len(batch(3)), len(batch(3)))
    assert replicas.manager.waiting.consumer_fetch_expirations.count == 1


def test_bytes_for_a_replica_that_is_being_added_count_as_a_reassignments_too() -> None:
    replicas = Replicas()
    replicas.brokers_alive(US, ANOTHER)
    replicas.lead(isr=(US,), replicas=(US, ANOTHER), adding_replicas=(ANOTHER,))
    replicas.append(("topic", 0, batch(3)))
    replicas.follow(0)
    stats = replicas.manager.topic_stats.totals("topic")
    assert stats.reassignment_bytes_out == stats.replication_bytes_out == len(batch(3))
    replicas.lead(leader_epoch=1, isr=(US, ANOTHER))
    replicas.follow(0)
    stats = replicas.manager.topic_stats.totals("topic")
    assert (stats.replication_bytes_out, stats.reassignment_bytes_out) == (2 * len(batch(3)), len(batch(3)))


def test_a_topic_s_metrics_go_with_its_last_partition_and_the_totals_stay() -> None:
    replicas = Replicas()
    replicas.lead(partition=0)
    replicas.lead(partition=1)
    replicas.append(("topic", 0, batch(3)), ("topic", 1, batch(2)))
    replicas.stop(partition=0)
    stats = replicas.manager.topic_stats
    assert stats.totals("topic").messages_in == 5
    replicas.stop(partition=1)
    assert stats.topic_names() == []
    assert stats.all_topics.messages_in == 5


def test_names_that_clients_make_up_cost_nothing() -> None:
    replicas = Replicas()
    replicas.lead()
    for number in range(100):
        replicas.append((f"made-up-{number}", 0, batch()))
        replicas.fetch(PartitionFetch(f"made-up-{number}", 0, 0, 1 << 20))
    replicas.append(("topic", 0, batch()))
    stats = replicas.manager.topic_stats
    assert stats.topic_names() == ["topic"]
    assert (stats.all_topics.total_produce_requests, stats.all_topics.total_fetch_requests) == (101, 100)


def test_nothing_is_lost_between_threads() -> None:
    stats = BrokerTopicStats()

    def count() -> None:
        for number in range(2000):
            stats.topic("a" if number % 2 else "b").messages_in += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (stats.totals("a").messages_in, stats.all_topics.messages_in) == (4000, 8000)


def test_rates_by_topic_and_for_all() -> None:
    stats = BrokerTopicStats()
    registry = MetricsRegistry()
    registry.family(stats)
    registry.tick(1)
    for turn in range(1, 400):
        stats.topic("a").total_produce_requests += 10
        stats.topic("a").bytes_in += 1000
        registry.tick(1 + turn * 5_000_000_000)
    samples = {sample.name.mbean: sample for sample in registry.collect()}
    for tags in ("", ",topic=a"):
        sample = samples[f"kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec{tags}"]
        assert sample.rates is not None
        assert 199 < sample.rates.one_minute < 201
    assert samples["kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec"].rates is NO_RATES
    stats.remove_topic("a")
    names = [sample.name.mbean for sample in registry.collect()]
    assert len(names) == len(COUNTERS)
    assert not [name for name in names if "topic=a" in name]


def test_gauges_of_the_replica_layer() -> None:
    replicas = Replicas(Broker(config=log_config(min_insync_replicas=2)))
    registry = MetricsRegistry()
    register_replica_metrics(registry, replicas.manager, replicas.clock)
    replicas.lead(partition=0, replicas=(US, ANOTHER))
    replicas.lead(partition=1, leader=ANOTHER, isr=(ANOTHER, US))
    replicas.append(("topic", 0, batch()))
    replicas.fetch(PartitionFetch("topic", 0, 0, 1 << 20), max_wait_ms=100)
    values = {sample.name.mbean: sample.value for sample in registry.collect()}
    manager = "kafka.server:type=ReplicaManager,name="
    assert values[f"{manager}LeaderCount"] == 1
    assert values[f"{manager}PartitionCount"] == 2
    assert values[f"{manager}UnderReplicatedPartitions"] == values[f"{manager}UnderMinIsrPartitionCount"] == 1
    assert values["kafka.cluster:type=Partition,name=UnderMinIsr,topic=topic,partition=0"] == 1
    assert values["kafka.cluster:type=Partition,name=ReplicasCount,topic=topic,partition=1"] == 0
    purgatory = "kafka.server:type=DelayedOperationPurgatory,name="
    assert values[f"{purgatory}NumDelayedOperations,delayedOperation=Fetch"] == 1
    assert values[f"{purgatory}PurgatorySize,delayedOperation=Produce"] == 0


def test_partitions_with_late_transactions() -> None:
    replicas = Replicas(Broker(manager_config=LogManagerConfig(verifies_transactions=False)))
    registry = MetricsRegistry()
    register_replica_metrics(registry, replicas.manager, replicas.clock)

    def late() -> float:
        (found,) = (
            each.value for each in registry.collect() if each.name.name == "PartitionsWithLateTransactionsCount"
        )
        return found

    for partition in range(3):
        replicas.lead(partition=partition)
    replicas.partition("topic", 0).log.append_as_leader(produced(7, 0, transactional=True), 0)
    replicas.partition("topic", 1).log.append_as_leader(produced(7, 0), 0)
    assert late() == 0
    allowed_ms = replicas.manager.config.transaction_max_timeout_ms + LATE_TRANSACTION_BUFFER_MS
    replicas.clock.advance(allowed_ms)
    assert late() == 0
    replicas.clock.advance(1)
    assert late() == 1
    marker = EndTransactionMarker(True, 0, NOW).batch(7, 0)
    replicas.partition("topic", 0).log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR)
    assert late() == 0
