"""`barnabas log adopt` over a log directory of Apache Kafka's: what it plans, does, refuses, and does only once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas.broker.log_adoption import AdoptionOrder, LogAdoption
from barnabas.cli.log.log import log
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import SystemClock
from barnabas.storage.directories.log_dir import DirectoryLock
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.embedded_store import EmbeddedStore
from tests.compatibility.data_dirs import contents
from tests.compatibility.golden import COMPACTED, CONFIGS, ORDERS, TOPICS, TRANSACTIONS, unpack

POLICY = ("--topic-config", f"{COMPACTED}:cleanup.policy=compact")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return unpack(tmp_path / "data")


def adopt(*arguments: object) -> Result:
    return CliRunner().invoke(log, ["adopt", *map(str, arguments)])


def refused(*arguments: object) -> str:
    result = adopt(*arguments)
    assert result.exit_code == 1
    return result.stderr


@contextmanager
def store_of(data_dir: Path) -> Iterator[KafkaZkClient]:
    store = EmbeddedStore(str(data_dir), SystemClock())
    store.start()
    try:
        yield KafkaZkClient(store.new_session(), SystemClock())
    finally:
        store.close()


def test_the_plan_is_shown_and_a_dry_run_changes_nothing(data_dir: Path) -> None:
    before = contents(data_dir)
    result = adopt(data_dir, *POLICY, "--topic-config", f"{ORDERS}:retention.ms=-1", "--dry-run")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    (orders,) = (line for line in lines if line.startswith("topic orders: "))
    assert "2 partitions" in orders
    assert "leader epochs 1 to 3" in orders
    assert "retention.ms=-1" in orders
    assert any("log.retention.hours" in line for line in lines)  # of `transactions`, which got no setting
    assert contents(data_dir) == before


def test_what_is_written(data_dir: Path) -> None:
    before = contents(data_dir)
    assert adopt(data_dir, *POLICY, "--topic-config", f"{ORDERS}:retention.ms=-1").exit_code == 0
    after = contents(data_dir)
    assert {name: after[name] for name in before} == before
    assert {name.split("-")[0] for name in after.keys() - before.keys()} == {"metadata.sqlite"}
    with store_of(data_dir) as zk:
        assert zk.topics.all_topics() == set(TOPICS)
        (orders,) = zk.topics.assignments([ORDERS])
        assert {key.partition: found.replicas for key, found in orders.assignment.items()} == {0: (0,), 1: (0,)}
        states = zk.topics.partition_states([TopicPartition(ORDERS, 0), TopicPartition(ORDERS, 1)])
        assert [state.leader_and_isr.leader_epoch for state in states.values()] == [3, 1]
        assert zk.configs.entity("topics", ORDERS) == {"retention.ms": "-1"}
        assert zk.configs.entity("topics", "__transaction_state")["cleanup.policy"] == "compact"
        assert f"cluster.id={zk.cluster_id()}" in (data_dir / "meta.properties").read_text()
        block, _ = zk.producer_id_block()
        assert block is not None
        assert block.last_producer_id == 6999  # 5000 is in use; the block after its own may be handed out already


def test_a_second_time_there_is_nothing_to_do(data_dir: Path) -> None:
    adopt(data_dir, *POLICY)
    with store_of(data_dir) as zk:
        first = zk.topics.assignments(TOPICS), zk.producer_id_block(), zk.configs.topics(TOPICS)
    again = adopt(data_dir)  # how to clean the compacted topic is known by now
    assert again.exit_code == 0
    assert again.stdout.count("known already") == len(TOPICS)
    with store_of(data_dir) as zk:
        assert first == (zk.topics.assignments(TOPICS), zk.producer_id_block(), zk.configs.topics(TOPICS))


def test_what_a_crash_left_undone_is_done(data_dir: Path) -> None:
    """The topic is there, its partitions have no leaders yet; and one partition was in a directory not named."""
    shutil.move(data_dir / f"{ORDERS}-1", data_dir / "aside")
    order = AdoptionOrder([str(data_dir)], topic_configs=CONFIGS)
    with LogAdoption(order) as adoption:
        adoption.carry_out(adoption.plan())
    with store_of(data_dir) as zk:
        zk.access.delete_recursive(f"/brokers/topics/{TRANSACTIONS}/partitions", -1)
    shutil.move(data_dir / "aside", data_dir / f"{ORDERS}-1")
    with LogAdoption(order) as adoption:
        plan = adoption.plan()
        assert [change.topic.name for change in plan.changed_topics] == [ORDERS, TRANSACTIONS]
        adoption.carry_out(plan)
        assert adoption.plan().changed_topics == []
    with store_of(data_dir) as zk:
        states = zk.topics.partition_states([TopicPartition(ORDERS, 1), TopicPartition(TRANSACTIONS, 0)])
        assert [state.leader_and_isr.leader_epoch for state in states.values()] == [1, 1]


def test_kafka_wrote_on_in_later_epochs(data_dir: Path) -> None:
    adopt(data_dir, *POLICY)
    (data_dir / f"{ORDERS}-1" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n7 16\n")
    assert "leader epoch 8" in adopt(data_dir).stdout
    with store_of(data_dir) as zk:
        (state,) = zk.topics.partition_states([TopicPartition(ORDERS, 1)]).values()
    assert state.leader_and_isr.leader_epoch == 8


def test_directories_of_kraft(data_dir: Path) -> None:
    properties = (data_dir / "meta.properties").read_text()
    cluster = next(line for line in properties.splitlines() if line.startswith("cluster.id="))
    text = f"version=1\n{cluster}\nnode.id=4\ndirectory.id=JbNNE8bTQgOTpFyeF3eTQQ\n"
    (data_dir / "meta.properties").write_text(text)
    (data_dir / "__cluster_metadata-0").mkdir()
    result = adopt(data_dir, *POLICY)
    assert result.exit_code == 0
    assert f"{data_dir}/__cluster_metadata-0: KRaft's metadata, left alone" in result.stdout
    assert "broker.id=4" in result.stdout
    rewritten = (data_dir / "meta.properties").read_text().splitlines()
    assert {"version=0", "broker.id=4", cluster, "directory.id=JbNNE8bTQgOTpFyeF3eTQQ"} <= set(rewritten)


def test_a_generated_broker_id_is_read_from_the_directory(data_dir: Path) -> None:
    (data_dir / "meta.properties").write_text("version=0\nbroker.id=1001\ncluster.id=elsewhere\n")
    result = adopt(data_dir, *POLICY)
    assert "broker 1001 of cluster elsewhere" in result.stdout
    assert "--override broker.id=-1 " in result.stdout


def test_topics_of_before_kafka_2_8_get_ids(data_dir: Path) -> None:
    for directory in data_dir.glob(f"{ORDERS}-*"):
        (directory / "partition.metadata").unlink()
    assert adopt(data_dir, *POLICY).exit_code == 0
    with store_of(data_dir) as zk:
        (orders,) = zk.topics.assignments([ORDERS])
    assert orders.topic_id is not None
    assert adopt(data_dir).stdout.count("known already") == len(TOPICS)


def test_several_directories(data_dir: Path) -> None:
    other = data_dir.with_name("other")
    other.mkdir()
    shutil.copy(data_dir / "meta.properties", other)
    shutil.move(data_dir / f"{ORDERS}-0", other)
    assert "topic orders has no directory of partition 0" in refused(data_dir, *POLICY)
    result = adopt(data_dir, other, *POLICY)
    assert result.exit_code == 0
    assert f"log.dirs={data_dir},{other}" in result.stdout
    assert f"{other}: not closed in order" in result.stdout
    shutil.copytree(other / f"{ORDERS}-0", data_dir / f"{ORDERS}-0")
    assert "partition orders-0 has two logs" in refused(data_dir, other)
    (other / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=elsewhere\n")
    reasons = refused(data_dir, other)
    assert "different broker ids: 0, 1" in reasons
    assert "different cluster ids" in reasons


def test_settings_from_a_file(data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text(f"# of our topics\n{COMPACTED}:cleanup.policy=compact\n\n{ORDERS}:retention.ms = 1000\n")
    result = adopt(data_dir, "--topic-configs", file, "--topic-config", f"{ORDERS}:retention.ms=-1")
    assert result.exit_code == 0
    with store_of(data_dir) as zk:
        assert zk.configs.entity("topics", ORDERS) == {"retention.ms": "-1"}


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        (f"{ORDERS}:retention.ms=x", "retention.ms"),
        (f"{ORDERS}:no.such=1", "Unknown topic config name: no.such"),
        ("elsewhere:retention.ms=1", "topic elsewhere, which has no directory in the log directories"),
    ],
)
def test_wrong_settings_are_refused(data_dir: Path, setting: str, reason: str) -> None:
    assert reason in refused(data_dir, *POLICY, "--topic-config", setting)
    assert not (data_dir / "metadata.sqlite").exists()


def test_nothing_is_guessed_about_cleaning(data_dir: Path) -> None:
    assert "topic compacted was compacted" in refused(data_dir)


def test_a_directory_in_use_is_refused(data_dir: Path) -> None:
    lock = DirectoryLock(str(data_dir))
    try:
        assert "is using this directory" in refused(data_dir, *POLICY)
    finally:
        lock.release()


@pytest.mark.parametrize("suffix", ["delete", "future", "stray"])
def test_leftovers_are_refused_unless_they_are_to_be_ignored(data_dir: Path, suffix: str) -> None:
    leftover = data_dir / f"{ORDERS}-2.0123456789abcdef0123456789abcdef-{suffix}"
    leftover.mkdir()
    assert str(leftover) in refused(data_dir, *POLICY)
    assert adopt(data_dir, *POLICY, "--ignore-leftovers").exit_code == 0
    assert leftover.exists()


def test_metadata_of_another_cluster_are_refused(data_dir: Path) -> None:
    adopt(data_dir, *POLICY)
    (data_dir / "meta.properties").write_text("version=0\nbroker.id=0\ncluster.id=elsewhere\n")
    assert "holds the metadata of another cluster" in refused(data_dir)


def test_another_topic_of_the_same_name_is_refused(data_dir: Path) -> None:
    adopt(data_dir, *POLICY)
    for directory in data_dir.glob(f"{ORDERS}-*"):
        (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n")
    assert "another topic named orders" in refused(data_dir)
    (data_dir / f"{ORDERS}-1" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAw\n")
    assert "carry different topic ids" in refused(data_dir)


def test_another_broker_is_refused(data_dir: Path) -> None:
    assert "belong to broker 0, not to broker 3" in refused(data_dir, *POLICY, "--broker-id", 3)


def test_the_newest_epochs_of_a_crashed_kafka_are_in_the_batches(data_dir: Path) -> None:
    """Also the highest producer id: neither checkpoint nor snapshot need have them yet."""
    (data_dir / ".kafka_cleanshutdown").unlink()
    for name in ("leader-epoch-checkpoint", "00000000000000000016.snapshot", "00000000000000000014.snapshot"):
        (data_dir / f"{ORDERS}-0" / name).unlink(missing_ok=True)
    (data_dir / "recovery-point-offset-checkpoint").unlink()
    with LogAdoption(AdoptionOrder([str(data_dir)], topic_configs=CONFIGS)) as adoption:
        plan = adoption.plan()
    found = plan.survey.partitions[TopicPartition(ORDERS, 0)]
    assert found.latest_epoch == 2
    assert found.highest_producer_id == 5000
