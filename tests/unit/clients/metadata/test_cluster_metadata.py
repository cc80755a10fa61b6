"""When metadata is fetched, and how answers are merged."""

from __future__ import annotations

import threading

import pytest

from barnabas.clients.errors import ClientClosed, ClientTimeout, Unreachable
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata, MetadataConfig, bootstrap_nodes
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import Node
from tests.support.client_metadata import metadata_response

BOOTSTRAP = [Node(-1, "a", 1), Node(-2, "b", 2)]


def fresh(**config: int) -> ClusterMetadata:
    metadata = ClusterMetadata(BOOTSTRAP, MetadataConfig(**config))  # type: ignore[arg-type]
    metadata.add_topic("t", 0)
    _, version, is_partial = metadata.new_request(0)
    metadata.update(version, metadata_response({"t": [0, 1]}, 2, epoch=5), is_partial, 0)
    return metadata


def names(metadata: ClusterMetadata, now_ms: int = 0) -> tuple[list[str | None], bool]:
    request, _, is_partial = metadata.new_request(now_ms)
    return [topic.name for topic in request.topics or []], is_partial


def test_begins_with_the_bootstrap_addresses_and_a_full_update() -> None:
    metadata = ClusterMetadata(BOOTSTRAP, MetadataConfig())
    assert metadata.cluster.is_bootstrap
    assert list(metadata.cluster.nodes.values()) == BOOTSTRAP
    assert metadata.time_to_next_update_ms(0) == 0
    assert names(metadata) == ([], False)


def test_expires_after_the_maximum_age() -> None:
    metadata = fresh(max_age_ms=1000)
    assert metadata.time_to_next_update_ms(10) == 990
    assert metadata.time_to_next_update_ms(1000) == 0
    assert names(metadata, 1000) == (["t"], False)


def test_a_new_topic_is_fetched_alone_and_at_once() -> None:
    metadata = fresh()
    assert metadata.add_topic("t", 1) == 1
    assert metadata.time_to_next_update_ms(1) > 0
    metadata.add_topic("new", 1)
    assert metadata.time_to_next_update_ms(1) == 0
    request, version, is_partial = metadata.new_request(1)
    assert ([topic.name for topic in request.topics or []], is_partial) == (["new"], True)
    metadata.update(version, metadata_response({"new": [1]}, 2), is_partial, 1)
    assert metadata.cluster.partition_count("t") == 2, "merged"
    assert metadata.cluster.partition_count("new") == 1
    assert not metadata.update_requested()


def test_a_topic_added_while_a_request_is_in_progress_is_fetched_next() -> None:
    metadata = fresh()
    metadata.add_topic("one", 1)
    _, version, is_partial = metadata.new_request(1)
    metadata.add_topic("two", 1)
    metadata.update(version, metadata_response({"one": [0]}, 2), is_partial, 1)
    assert metadata.update_requested()
    assert names(metadata, 1) == (["two"], True)


def test_a_full_update_replaces_and_drops_topics_nobody_uses() -> None:
    metadata = fresh(topic_idle_ms=1000)
    metadata.add_topic("old", 0)
    metadata.request_update()
    _, version, _ = metadata.new_request(0)
    metadata.update(version, metadata_response({"t": [0], "old": [0]}, 1), False, 0)
    metadata.add_topic("t", 900)
    metadata.request_update()
    assert names(metadata, 1000) == (["t"], False)
    metadata.update(version, metadata_response({"t": [0]}, 1), False, 1000)
    assert metadata.cluster.partition_count("old") is None


def test_failures_are_waited_out_longer_and_longer() -> None:
    metadata = fresh(refresh_backoff_ms=100, refresh_backoff_max_ms=1000)
    metadata.request_update()
    waits = []
    for _ in range(6):
        metadata.failed_update(0)
        waits.append(metadata.time_to_next_update_ms(0))
    assert waits == [100, 200, 400, 800, 1000, 1000]


def test_leader_epochs_never_go_back_unless_the_topic_is_another() -> None:
    metadata = fresh()
    metadata.update(9, metadata_response({"t": [1, 1]}, 2, epoch=4), False, 1)
    assert [info.leader for info in metadata.cluster.topics["t"]] == [0, 1]
    metadata.update(9, metadata_response({"t": [1, 1]}, 2, epoch=6), False, 2)
    assert [info.leader for info in metadata.cluster.topics["t"]] == [1, 1]
    metadata.update(9, metadata_response({"t": [0, 0]}, 2, epoch=0, topic_id=b"\2" * 16), False, 3)
    assert [info.leader for info in metadata.cluster.topics["t"]] == [0, 0]


def test_errors_that_may_pass_keep_what_is_known_and_ask_again() -> None:
    metadata = fresh()
    metadata.update(9, metadata_response({"t": int(ErrorCode.LEADER_NOT_AVAILABLE)}, 2), False, 1)
    assert metadata.cluster.leader(TopicPartition("t", 1)) == Node(1, "127.0.0.1", 9092)
    assert metadata.update_requested()


def test_errors_that_do_not_pass_are_raised() -> None:
    metadata = fresh()
    metadata.raise_topic_error("t")
    metadata.update(9, metadata_response({"t": int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}, 2), False, 1)
    with pytest.raises(ApiError, match=r"authorization failed\. Topic: t"):
        metadata.raise_topic_error("t")
    assert metadata.cluster.partition_count("t") is None


def test_rebootstrap() -> None:
    metadata = fresh()
    metadata.rebootstrap()
    assert metadata.cluster.is_bootstrap
    assert metadata.update_requested()


def test_waiting() -> None:
    metadata = fresh()
    metadata.await_update(0, 0)
    with pytest.raises(ClientTimeout):
        metadata.await_update(1, 0)
    waiter = threading.Thread(target=metadata.await_update, args=(1, 60_000))
    waiter.start()
    metadata.update(9, metadata_response({"t": [0]}, 1), False, 1)
    waiter.join(10)
    assert not waiter.is_alive()
    metadata.fail(ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED))
    with pytest.raises(ApiError):
        metadata.await_update(9, 0)
    metadata.close()
    with pytest.raises(ClientClosed):
        metadata.await_update(9, 0)


def test_bootstrap_addresses() -> None:
    assert bootstrap_nodes("a:1, [::1]:2,PLAINTEXT://c:3,") == [
        Node(-1, "a", 1),
        Node(-2, "::1", 2),
        Node(-3, "c", 3),
    ]
    assert bootstrap_nodes(["a:1"]) == [Node(-1, "a", 1)]
    for bad in ("", "a", ":1", "a:b", "a:0", "a:65536"):
        with pytest.raises(ValueError, match="bootstrap"):
            bootstrap_nodes(bad)


def test_why_no_broker_can_be_reached() -> None:
    metadata = ClusterMetadata(BOOTSTRAP, MetadataConfig(bootstrap_timeout_ms=1_000))
    metadata.bootstrap_failed(Node(-1, "a", 1), "connection refused", 0)
    for index, node in enumerate(BOOTSTRAP):
        metadata.bootstrap_failed(node, f"reason {index}", 999)
    metadata.raise_unreachable()
    metadata.bootstrap_failed(BOOTSTRAP[0], "unknown host", 1_000)
    with pytest.raises(Unreachable, match=r"No broker can be reached \(.*unknown host"):
        metadata.raise_unreachable()
    with pytest.raises(Unreachable):
        metadata.await_update(0, 0)


def test_a_cluster_that_was_reached_once_may_be_gone_for_long() -> None:
    metadata = ClusterMetadata(BOOTSTRAP, MetadataConfig(bootstrap_timeout_ms=1))
    metadata.update(9, metadata_response({}, 1), False, 1)
    for node in BOOTSTRAP:
        metadata.bootstrap_failed(node, "connection refused", 9_000)
    metadata.raise_unreachable()
    assert type(metadata.timeout("too late")) is ClientTimeout


def test_a_wait_that_times_out_names_the_last_failure_since_the_last_update() -> None:
    metadata = fresh()
    assert str(metadata.timeout("Too late.")) == "Too late."
    metadata.connection_failed(Node(1, "b", 9092), "connection refused")
    assert str(metadata.timeout("Too late.")) == "Too late; the last failure: b:9092: connection refused"
    metadata.update(9, metadata_response({"t": [0]}, 1), False, 1)
    assert str(metadata.timeout("Too late.")) == "Too late."
