"""A coordinator whose disk is full when a transaction's markers are written completes it when there is room again."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas.faults.fault_plan import Delay
from barnabas.testing import Cluster
from barnabas.testing.broker_command import Setting
from tests.support.server_fixtures import AGAINST_KAFKA
from tests.support.small_disk import SmallDisk
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="the kit starts brokers of Barnabas")

BROKERS = 2
SECONDS = 60
SETTINGS: dict[str, Setting] = {
    "log_index_size_max_bytes": 100_000,
    "transaction_state_log_num_partitions": 1,
    "transaction_state_log_replication_factor": 1,
    "transaction_state_log_min_isr": 1,
    "min_insync_replicas": 1,
}
LONG_ID = "id" * 4_000
"""So that no record about it has room in the last page of a file, which is never taken from a file."""
NOT_STORED = "the transition to CompleteCommit could not be stored"


def test_a_transaction_is_completed_when_there_is_room(tmp_path: Path) -> None:
    disks = [SmallDisk(tmp_path / f"disk-{number}", 64) for number in range(BROKERS)]
    for number, disk in enumerate(disks):
        (disk.path / "data").mkdir()
        (tmp_path / f"broker-{number}").symlink_to(disk.path / "data")
    cluster = Cluster(str(tmp_path), BROKERS, SETTINGS, faults=True)
    try:
        cluster.start(SECONDS)
        _write_on_full_disk(cluster, disks)
        cluster.close()
    finally:
        cluster.kill_all()
        for disk in disks:
            disk.unmount()


def _write_on_full_disk(cluster: Cluster, disks: list[SmallDisk]) -> None:
    with (
        Admin(cluster.bootstrap_servers) as admin,
        Producer(cluster.bootstrap_servers, transactional_id=LONG_ID) as producer,
    ):
        producer.init_transactions()
        coordinator = admin.describe_topics(["__transaction_state"])["__transaction_state"].partitions[0].leader
        leader = 1 - coordinator
        admin.create_topics([NewTopic("written", assignments={0: [leader]})])
        # The marker is written, and the coordinator hears of it when its disk is full.
        with cluster.brokers[leader].faults.add(Delay(3_000, "after"), api="WriteTxnMarkers") as late:
            producer.begin_transaction()
            producer.send("written", b"first")
            producer.commit_transaction()
            late.wait_for_hits()
            disks[coordinator].take_room()
            wait_until(lambda: NOT_STORED in cluster.brokers[coordinator].log_text(), SECONDS)
        disks[coordinator].make_room()
        producer.begin_transaction()
        producer.send("written", b"second")
        producer.commit_transaction()
