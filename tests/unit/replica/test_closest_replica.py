"""The leader sends consumers to the follower in their rack, if the setting says so."""

from __future__ import annotations

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest
from barnabas.replica.partitions.partition_fetch import ConsumerPlace, PartitionFetch
from barnabas.replica.requests.closest_replica_reader import RACK_AWARE
from tests.unit.replica.replica_harness import ANOTHER, TOPIC_ID, US, Replicas
from tests.unit.storage.log_harness import batch

THIRD = 2
LISTENER = "CLIENTS"


def leading(
    racks: tuple[str, str, str] = ("a", "b", "b"),
    *,
    isr: tuple[int, ...] = (US, ANOTHER, THIRD),
    selector: str | None = RACK_AWARE,
    ends: tuple[int, int] = (6, 6),
) -> Replicas:
    """We lead; six records, of which the followers have as many as `ends` says."""
    replicas = Replicas(replica_selector_class=selector)
    announce(replicas, racks)
    replicas.lead(isr=isr, replicas=(US, ANOTHER, THIRD))
    for _ in range(3):
        replicas.append(("topic", 0, batch(2)))
    for follower, end in zip((ANOTHER, THIRD), ends, strict=True):
        replicas.follow(end, replica_id=follower)
    return replicas


def announce(replicas: Replicas, racks: tuple[str, str, str], listener: str = LISTENER) -> None:
    brokers = [
        UpdateMetadataRequest.UpdateMetadataBroker(
            id=broker_id,
            endpoints=[UpdateMetadataRequest.UpdateMetadataEndpoint(9092, f"host-{broker_id}", listener)],
            rack=rack,
        )
        for broker_id, rack in enumerate(racks)
    ]
    replicas.manager.orders.update_metadata(
        UpdateMetadataRequest(controller_id=US, controller_epoch=1, live_brokers=brokers)
    )


def consume(replicas: Replicas, offset: int = 2, rack: str | None = "b", max_wait_ms: int = 0) -> PartitionFetch:
    place = None if rack is None else ConsumerPlace(rack, LISTENER)
    fetch = PartitionFetch("topic", 0, offset, 1 << 20)
    (answered,) = replicas.fetch(fetch, max_wait_ms=max_wait_ms, place=place)
    return answered


def test_a_consumer_is_sent_to_its_rack_at_once_and_without_records() -> None:
    replicas = leading()
    found = consume(replicas, offset=6, max_wait_ms=500)
    assert (found.error, found.preferred_read_replica, bytes(found.records)) == (ErrorCode.NONE, THIRD, b"")
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (6, 6, 0)


@pytest.mark.parametrize(
    ("racks", "rack"), [(("b", "b", "b"), "b"), (("a", "b", "b"), "c"), (("a", "b", "b"), "a"), (("a", "b", "b"), None)]
)
def test_the_leader_reads_for_its_own_rack_and_for_racks_without_a_replica(
    racks: tuple[str, str, str], rack: str | None
) -> None:
    found = consume(leading(racks), rack=rack)
    assert found.preferred_read_replica == -1
    assert len(found.records) == 2 * len(batch(2))


def test_without_the_setting_the_leader_reads() -> None:
    found = consume(leading(selector=None))
    assert (found.preferred_read_replica, len(found.records)) == (-1, 2 * len(batch(2)))


def test_the_follower_with_most_records_is_chosen() -> None:
    assert consume(leading(ends=(6, 4))).preferred_read_replica == ANOTHER


def test_followers_without_the_offset_or_out_of_sync_or_out_of_reach_are_not_chosen() -> None:
    # A consumer may ask for the follower's end, where the next record will be.
    behind = leading(("a", "b", "c"), ends=(4, 6))
    assert consume(behind, offset=4).preferred_read_replica == ANOTHER
    assert consume(behind, offset=5).preferred_read_replica == -1
    assert consume(leading(isr=(US, ANOTHER)), offset=2).preferred_read_replica == ANOTHER
    unreachable = leading()
    announce(unreachable, ("a", "b", "b"), listener="BROKERS")
    assert consume(unreachable).preferred_read_replica == -1


def test_a_follower_whose_log_begins_later_is_not_chosen() -> None:
    replicas = leading()
    replicas.follow(6, replica_id=THIRD, log_start_offset=4)
    assert consume(replicas, offset=2).preferred_read_replica == ANOTHER
    assert consume(replicas, offset=4).preferred_read_replica == THIRD


def test_epochs_and_topic_ids_are_checked_first() -> None:
    replicas = leading()
    place = ConsumerPlace("b", LISTENER)
    (stale,) = replicas.fetch(PartitionFetch("topic", 0, 0, 1 << 20, current_leader_epoch=7), place=place)
    (renamed,) = replicas.fetch(PartitionFetch("topic", 0, 0, 1 << 20, topic_id=TOPIC_ID[::-1]), place=place)
    assert [stale.error, renamed.error] == [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.INCONSISTENT_TOPIC_ID]
    assert [stale.preferred_read_replica, renamed.preferred_read_replica] == [-1, -1]


def test_a_fetch_that_waits_in_the_leaders_rack_is_answered_by_the_leader() -> None:
    replicas = leading()
    answered = replicas.fetch(
        PartitionFetch("topic", 0, 6, 1 << 20), max_wait_ms=500, place=ConsumerPlace("a", LISTENER)
    )
    assert not answered
    replicas.append(("topic", 0, batch(2)))
    for follower in (ANOTHER, THIRD):
        replicas.follow(8, replica_id=follower)
    assert [len(read.records) for read in answered] == [len(batch(2))]


def test_another_class_is_refused_in_words() -> None:
    config = KafkaConfig.parse({"replica.selector.class": RACK_AWARE})
    assert config.value("replica.selector.class") == RACK_AWARE
    with pytest.raises(ConfigError, match=r"com\.example\.Nearest for configuration replica\.selector\.class"):
        KafkaConfig.parse({"replica.selector.class": "com.example.Nearest"})
