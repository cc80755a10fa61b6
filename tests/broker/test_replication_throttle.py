"""A replica that comes back behind its throttle stays behind until the throttle is lifted, on either side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, ConfigChange, ConfigOperation, ConfigResource, NewTopic
from barnabas.clients.producer import Producer
from barnabas.testing import Cluster, cluster
from barnabas.zk.store.store import Store
from tests.support.cluster_state import partition_state
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(400)

SECONDS = 60
VALUE = b"v" * 400_000
RECORDS = 40
"""Some 16 MB, of which a follower fetches 1 MB at a time."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("two") / "made-by-the-kit"
    with cluster(
        2, data_dir=str(directory), replica_fetch_max_bytes=1 << 20, controlled_shutdown_enable=False
    ) as running:
        yield running
    assert (directory / "broker-0").is_dir()
    assert (directory / "broker-1").is_dir()


@pytest.fixture
def store(two: Cluster) -> Iterator[Store]:
    session = two.store.session()
    yield session
    session.close()


eventually = partial(wait_until, seconds=SECONDS)


def copied(two: Cluster, follower: int, topic: str) -> int:
    return sum(file.stat().st_size for file in Path(two.brokers[follower].data_dir, f"{topic}-0").glob("*.log"))


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_replica_stays_behind(two: Cluster, store: Store, side: str) -> None:
    topic = f"throttled-{side}"
    with Admin(two.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 2)])
    leader = partition_state(store, topic)["leader"]
    follower = 1 - leader
    two.kill(follower)
    eventually(lambda: partition_state(store, topic)["isr"] == [leader])
    of_topic, of_brokers = ConfigResource.topic(topic), ConfigResource.all_brokers()
    replicas, rate = f"{side}.replication.throttled.replicas", f"{side}.replication.throttled.rate"
    with Admin(two.brokers[leader].bootstrap_servers) as admin:
        admin.incremental_alter_configs(of_topic, [ConfigChange(replicas, ConfigOperation.SET, "*")])
        admin.incremental_alter_configs(of_brokers, [ConfigChange(rate, ConfigOperation.SET, "1")])
        # The leader takes settings over when it reads the store's notice. The follower finds them when it starts.
        for change in (f"config/topics/{topic} with config: ['{replicas}']", f"<default> with config: ['{rate}']"):
            eventually(lambda: change in two.brokers[leader].log_text())  # noqa: B023
        with Producer(two.brokers[leader].bootstrap_servers) as producer:
            for sent in [producer.send(topic, VALUE, partition=0) for _ in range(RECORDS)]:
                sent.result(SECONDS)
        two.restart(follower)
        eventually(lambda: copied(two, follower, topic) > 0)
        # A second fetch may be on its way when the first is counted. Without a throttle all is copied at once.
        time.sleep(2)
        assert copied(two, follower, topic) < RECORDS * len(VALUE) // 2
        assert partition_state(store, topic)["isr"] == [leader]
        admin.incremental_alter_configs(of_brokers, [ConfigChange(rate, ConfigOperation.DELETE)])
        eventually(lambda: sorted(partition_state(store, topic)["isr"]) == [0, 1])
        assert copied(two, follower, topic) >= RECORDS * len(VALUE)
