"""Splits of the test kit's cluster: brokers that do not reach each other, or the store, and come back."""

from __future__ import annotations

from functools import partial

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas.testing import BrokerFailed, Cluster, cluster
from barnabas.zk.znodes.broker_zk_data import BrokerIdZNode
from tests.support.cluster_state import partition_state
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(400)
SECONDS = 120
TOPIC = "split"


eventually = partial(wait_until, seconds=SECONDS)


def isr_in_store(running: Cluster) -> set[int]:
    """Return the in-sync replicas as the leader has written them: clients hear of them some seconds later."""
    session = running.store.session()
    try:
        return set(partition_state(session, TOPIC)["isr"])
    finally:
        session.close()


def brokers_known_to(running: Cluster, broker_id: int) -> set[int]:
    with Admin(running.brokers[broker_id].bootstrap_servers) as admin:
        return {node.id for node in admin.describe_cluster().nodes}


def is_registered(running: Cluster, broker_id: int) -> bool:
    session = running.store.session()
    try:
        return session.exists(BrokerIdZNode.path(broker_id)) is not None
    finally:
        session.close()


def test_a_follower_behind_a_split_leaves_the_isr_and_comes_back() -> None:
    with cluster(3, faults=True, replica_lag_time_max_ms=2_000, num_replica_fetchers=2) as running:
        # The controller leads: a leader that is parted from the controller could take no replica out of the ISR.
        leader = running.controller_id
        assert leader is not None
        near, far = sorted({0, 1, 2} - {leader})
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, assignments={0: [leader, near, far]})])
        with Producer(running.bootstrap_servers, acks="all") as producer:
            producer.send(TOPIC, b"before").result(SECONDS)
            running.partition({far}, {leader, near})
            producer.send(TOPIC, b"meanwhile").result(SECONDS)
            eventually(lambda: isr_in_store(running) == {leader, near})
            assert is_registered(running, far), "only its links to the brokers are cut"
            running.heal()
            eventually(lambda: isr_in_store(running) == {0, 1, 2})
            # One direction: the follower does not reach its leader, which would reach it.
            running.cut_link(near, leader)
            producer.send(TOPIC, b"after").result(SECONDS)
            eventually(lambda: isr_in_store(running) == {leader, far})
            running.heal()
            eventually(lambda: isr_in_store(running) == {0, 1, 2})


def test_a_controller_that_is_cut_off_from_all_is_replaced(barnabas_cluster: Cluster) -> None:
    running = barnabas_cluster
    with pytest.raises(ValueError, match="two of the groups"):
        running.partition({0}, {0, 1})
    former = running.controller_id
    assert former is not None
    running.partition({former}, {0, 1, 2} - {former}, without_store={former})
    eventually(lambda: running.controller_id not in (None, former))
    later = running.controller_id
    assert later is not None
    eventually(lambda: not is_registered(running, former))
    # The isolated broker may still believe that it is the controller, and clients that it tells would believe so, too.
    eventually(lambda: brokers_known_to(running, later) == {0, 1, 2} - {former})
    running.heal()
    eventually(lambda: is_registered(running, former))
    running.wait_until_known(SECONDS)


def test_a_cluster_without_faults_is_not_split() -> None:
    lonely = Cluster("/nowhere", 2, {})
    try:
        with pytest.raises(BrokerFailed, match="takes no faults"):
            lonely.partition({0}, {1})
    finally:
        lonely.kill_all()
