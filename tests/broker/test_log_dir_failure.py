"""A log directory fails under a running broker, or is out of order when it starts: what lies there is offline, the rest
works. The failure is made from outside: a partition's directory is replaced by a file, and the next segment finds none.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataResponse
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import SECONDS, RawClient, make_batch
from tests.support.server_fixtures import AGAINST_KAFKA, MODES, SERVER_PROPERTIES, Server, make_server_with_two_dirs
from tests.support.waiting import wait_until

SMALL_SEGMENTS = {"segment.bytes": "1000"}
BATCH = make_batch([b"x" * 600], timestamp_ms=1_700_000_000_000)
"""Two don't fit a segment: every second produce rolls."""

only_ours = pytest.mark.skipif(AGAINST_KAFKA, reason="Kafka keeps its metadata elsewhere")


@pytest.fixture(params=MODES)
def two_dirs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server with the log directories a and b, not started."""
    server = make_server_with_two_dirs(request.param, tmp_path)
    yield server
    server.close()


def _break(log_dir: Path, partition: str) -> None:
    shutil.rmtree(log_dir / partition)
    (log_dir / partition).write_text("no directory")


def _partitions_in(log_dir: Path, topic: str) -> list[int]:
    return sorted(int(path.name.rpartition("-")[2]) for path in log_dir.glob(f"{topic}-*"))


def _leaderless(client: RawClient, topic: str) -> dict[int, MetadataResponse.MetadataResponsePartition]:
    return {
        partition.partition_index: partition
        for partition in client.metadata(topic).partitions
        if partition.leader_id == -1
    }


def test_a_failed_directory_goes_offline_and_the_rest_works(two_dirs: Server, tmp_path: Path) -> None:
    server, topic = two_dirs, "topic"
    server.start()
    with RawClient(server) as client:
        client.create_topic(topic, 4, SMALL_SEGMENTS)
        in_a, in_b = _partitions_in(tmp_path / "a", topic), _partitions_in(tmp_path / "b", topic)
        assert (len(in_a), len(in_b)) == (2, 2)
        for partition in range(4):
            assert client.produce(topic, BATCH, partition=partition).error_code == ErrorCode.NONE
        broken, beside = in_b
        _break(tmp_path / "b", f"{topic}-{broken}")

        assert client.produce(topic, BATCH, partition=broken).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        wait_until(lambda: sorted(_leaderless(client, topic)) == in_b, SECONDS)
        for partition, described in _leaderless(client, topic).items():
            assert described.error_code == ErrorCode.LEADER_NOT_AVAILABLE, partition
            assert list(described.offline_replicas) == list(described.replica_nodes)
        for partition in in_b:  # the other partition of the directory is gone as well
            assert client.produce(topic, BATCH, partition=partition).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert client.fetch(topic, 0, partition=partition).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert client.list_offset(topic, -1, partition=partition).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for partition in in_a:
            assert client.produce(topic, BATCH, partition=partition).error_code == ErrorCode.NONE
            assert client.fetch(topic, 1, partition=partition).error_code == ErrorCode.NONE
        client.create_topic("later", 2)
        assert _partitions_in(tmp_path / "a", "later") == [0, 1]

    server.stop()
    assert not (tmp_path / "b" / ".kafka_cleanshutdown").exists()
    (tmp_path / "b" / f"{topic}-{broken}").unlink()
    server.start()  # mended: what is whole is there again, what was lost begins anew
    with RawClient(server) as client:
        client.wait_for_leaders(topic, 4)
        assert client.end_offset(topic, beside) == 1
        assert client.end_offset(topic, broken) == 0
        assert [client.end_offset(topic, partition) for partition in in_a] == [2, 2]


def test_a_directory_that_is_a_file_at_the_start_leaves_the_others_working(two_dirs: Server, tmp_path: Path) -> None:
    server, topic = two_dirs, "topic"
    server.start()
    with RawClient(server) as client:
        client.create_topic(topic, 2)
        (in_a,), (in_b,) = _partitions_in(tmp_path / "a", topic), _partitions_in(tmp_path / "b", topic)
        client.produce(topic, BATCH, partition=in_a)
    server.stop()
    (tmp_path / "b").rename(tmp_path / "away")
    (tmp_path / "b").write_text("no directory")
    server.start()
    with RawClient(server) as client:
        wait_until(lambda: list(_leaderless(client, topic)) == [in_b], SECONDS)
        assert client.produce(topic, BATCH, partition=in_b).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.end_offset(topic, in_a) == 1
        client.create_topic("new", 2)
        assert _partitions_in(tmp_path / "a", "new") == [0, 1]
    server.stop()
    (tmp_path / "b").unlink()
    (tmp_path / "away").rename(tmp_path / "b")
    server.start()
    with RawClient(server) as client:
        client.wait_for_leaders(topic, 2)


def test_the_last_directory_stops_the_broker(own_server: Server) -> None:
    own_server.start()
    with RawClient(own_server) as client:
        client.create_topic("topic", 1, SMALL_SEGMENTS)
        client.produce_values("topic", b"x" * 600)
        _break(own_server.data_dir, "topic-0")
        client.send(client.produce_request("topic", BATCH, 9, 1), 9)
        assert own_server.wait(SECONDS) == 1


@only_ours
def test_losing_the_directory_of_the_metadata_stops_the_broker(two_dirs: Server, tmp_path: Path) -> None:
    server = two_dirs
    assert isinstance(server, BarnabasProcess)
    server = BarnabasProcess(tmp_path / "other", SERVER_PROPERTIES)
    server.log_dirs = (tmp_path / "a", tmp_path / "b")
    server.start()
    with RawClient(server) as client:
        client.create_topic("topic", 2, SMALL_SEGMENTS)
        (in_a,) = _partitions_in(tmp_path / "a", "topic")
        client.produce_values("topic", b"x" * 600, partition=in_a)
        _break(tmp_path / "a", f"topic-{in_a}")
        client.send(client.produce_request("topic", BATCH, 9, 1, in_a), 9)
        assert server.wait(SECONDS) == 1


def test_a_directory_of_another_cluster_is_fatal(two_dirs: Server, tmp_path: Path) -> None:
    two_dirs.start()
    two_dirs.stop()
    properties = tmp_path / "b" / "meta.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("cluster.id")]
    properties.write_text("\n".join([*lines, "cluster.id=somebody-elses", ""]))
    with pytest.raises(Exception, match="somebody-elses"):
        two_dirs.start()


@only_ours
def test_a_log_of_an_earlier_topic_of_the_same_name_is_put_aside(own_server: Server) -> None:
    own_server.start()
    with RawClient(own_server) as client:
        client.create_topic("topic", 2)
        for partition in (0, 1):
            client.produce_values("topic", b"a record", partition=partition)
    own_server.stop()
    metadata = own_server.data_dir / "topic-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAEg\n")
    own_server.start()
    with RawClient(own_server) as client:
        client.wait_for_leaders("topic", 2)
        assert (client.end_offset("topic", 0), client.end_offset("topic", 1)) == (0, 1)
    (aside,) = own_server.data_dir.glob("topic-0.*-stray")
    assert (aside / "00000000000000000000.log").stat().st_size
