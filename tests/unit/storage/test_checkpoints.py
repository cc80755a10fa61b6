"""Text files: checkpoints, leader epochs, marks and meta properties, against Kafka's format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.storage.checkpoints import LeaderEpochCheckpointFile, MalformedCheckpoint, OffsetCheckpointFile
from barnabas.storage.directories.log_dir import take_clean_shutdown, write_clean_shutdown
from barnabas.storage.directories.meta_properties import (
    MetaProperties,
    check_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from barnabas.storage.errors import InconsistentMetaProperties
from barnabas.storage.log.topic_identity import read_partition_metadata, write_partition_metadata
from tests.support.simulated_files import SimulatedFiles

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))


def disk() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_dirs("/d")
    return files


@given(st.dictionaries(partitions, st.integers(0, 2**63 - 1), max_size=8))
def test_offsets_round_trip(offsets: dict[TopicPartition, int]) -> None:
    file = OffsetCheckpointFile("/d", "recovery-point-offset-checkpoint", disk())
    assert file.read() == {}
    file.write(offsets)
    assert file.read() == offsets


def test_offset_checkpoint_is_kafkas() -> None:
    files = disk()
    file = OffsetCheckpointFile("/d", "recovery-point-offset-checkpoint", files)
    file.write({TopicPartition("b", 1): 7, TopicPartition("a", 0): 3})
    assert files.read_bytes("/d/recovery-point-offset-checkpoint") == b"0\n2\na 0 3\nb 1 7\n"


def test_an_empty_checkpoint_has_no_entries() -> None:
    """Kafka makes the file when it opens the directory, and writes it minutes later."""
    files = disk()
    files.write_bytes("/d/f", b"")
    assert OffsetCheckpointFile("/d", "f", files).read() == {}


@pytest.mark.parametrize(
    "content",
    [
        b"\n",
        b"0\n",
        b"1\n0\n",
        b"x\n0\n",
        b"0\n2\na 0 3\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 x\n",
        b"0\n0\na 0 3\n",
        b"\xff",
    ],
)
def test_malformed_checkpoint_is_refused_by_name(content: bytes) -> None:
    files = disk()
    files.write_bytes("/d/f", content)
    with pytest.raises(MalformedCheckpoint, match="/d/f"):
        OffsetCheckpointFile("/d", "f", files).read()


def test_leader_epochs_are_kafkas() -> None:
    files = disk()
    file = LeaderEpochCheckpointFile("/d", files)
    file.write([(0, 0), (3, 120)])
    assert files.read_bytes("/d/leader-epoch-checkpoint") == b"0\n2\n0 0\n3 120\n"
    assert file.read() == [(0, 0), (3, 120)]


def test_clean_shutdown_mark_is_taken_once() -> None:
    files = disk()
    assert take_clean_shutdown(files, "/d") is None
    write_clean_shutdown(files, "/d", 42)
    assert files.read_bytes("/d/.kafka_cleanshutdown") == b'{"version":"0","broker_epoch":"42"}'
    assert take_clean_shutdown(files, "/d") == 42
    assert take_clean_shutdown(files, "/d") is None


def test_empty_mark_of_an_old_broker_counts() -> None:
    files = disk()
    files.write_bytes("/d/.kafka_cleanshutdown", b"")
    assert take_clean_shutdown(files, "/d") == -1


def test_meta_properties_read_what_kafka_writes() -> None:
    files = disk()
    files.write_bytes(
        "/d/meta.properties", b"#\n#Fri Nov 21 05:00:00 UTC 2025\nbroker.id=3\nversion=0\ncluster.id=abc=\n"
    )
    assert read_meta_properties(files, "/d") == MetaProperties("abc=", 3)


def test_meta_properties_round_trip() -> None:
    files = disk()
    assert read_meta_properties(files, "/d") is None
    properties = MetaProperties("cluster", 1, "JbNNE8bTQgOTpFyeF3eTQQ")
    write_meta_properties(files, "/d", properties)
    assert read_meta_properties(files, "/d") == properties


@pytest.mark.parametrize("found", [MetaProperties("other", 0), MetaProperties("cluster", 1)])
def test_foreign_directory_is_refused(found: MetaProperties) -> None:
    with pytest.raises(InconsistentMetaProperties, match=r"/d/meta\.properties"):
        check_meta_properties({"/e": None, "/d": found}, "cluster", 0)


def test_partition_metadata_is_kafkas() -> None:
    files = disk()
    assert read_partition_metadata(files, "/d") is None
    write_partition_metadata(files, "/d", bytes(range(16)))
    assert files.read_bytes("/d/partition.metadata") == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert read_partition_metadata(files, "/d") == bytes(range(16))


@pytest.mark.parametrize(
    "content", [b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n", b"version: 0\ntopic_id: x\n"]
)
def test_malformed_partition_metadata_is_refused(content: bytes) -> None:
    files = disk()
    files.write_bytes("/d/partition.metadata", content)
    with pytest.raises(MalformedCheckpoint, match=r"partition\.metadata"):
        read_partition_metadata(files, "/d")
