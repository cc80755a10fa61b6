"""A topic is copied exactly once while the brokers of a cluster are killed (-9) in turn, in the middle of transactions.

Three libraries copy at the same time, each to a topic of its own. The broker that dies is the coordinator of one
copier's transactions, then the leader of a partition that the next one writes to, and so on. The copies go on while the
broker is away, and before the next one dies all replicas are in sync. kafka-python reads the copies as a reader of
committed records.
"""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from functools import partial

import pytest

from barnabas.clients.admin import Admin, FeatureUpdate, NewTopic
from barnabas.testing import Cluster, cluster
from tests.clients.topic_copies import (
    COPIED_BEFORE_A_KILL,
    PARTITIONS,
    RECORDS_A_ROUND,
    SOURCE,
    STALL_SECONDS,
    WITHIN_A_TRANSACTION_SECONDS,
    Source,
    await_all_copies,
    await_ended_transactions,
    read_committed,
)
from tests.clients.transactional_copiers import COPIERS, CopierThread
from tests.support.cluster_state import in_sync_replicas
from tests.support.waiting import wait_until

BROKERS = 3
COORDINATOR_PARTITIONS = 3
COORDINATOR_TOPICS = ("__consumer_offsets", "__transaction_state")
REPLICAS = BROKERS * (PARTITIONS * (1 + len(COPIERS)) + COORDINATOR_PARTITIONS * len(COORDINATOR_TOPICS))
COPIED_WITHOUT_THE_BROKER = (COPIED_BEFORE_A_KILL + RECORDS_A_ROUND) // 2


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("transaction_version", "kills"),
    [(2, 2), pytest.param(0, 20, marks=pytest.mark.slow), pytest.param(2, 20, marks=pytest.mark.slow)],
)
def test_each_record_is_copied_once(transaction_version: int, kills: int) -> None:
    with (
        cluster(
            BROKERS,
            offsets_topic_num_partitions=COORDINATOR_PARTITIONS,
            transaction_state_log_num_partitions=COORDINATOR_PARTITIONS,
        ) as running,
        Admin(running.bootstrap_servers) as admin,
    ):
        if transaction_version:
            admin.update_features({"transaction.version": FeatureUpdate(transaction_version)})
        admin.create_topics([NewTopic(name, PARTITIONS, BROKERS) for name in (SOURCE, *COPIERS)])
        source = _copy_over_kills(running, admin, kills)
        for target in COPIERS:
            assert read_committed(running.bootstrap_servers, target) == source.values
        await_ended_transactions(running.bootstrap_servers)


def _copy_over_kills(running: Cluster, admin: Admin, kills: int) -> Source:
    bootstrap, chance = running.bootstrap_servers, random.Random(kills)
    source = Source(bootstrap)
    copiers = {target: CopierThread(copier, bootstrap, SOURCE, target) for target, copier in COPIERS.items()}
    with ExitStack() as stack:
        for copier in copiers.values():
            stack.enter_context(copier.running())
        for round_number in range(kills):
            wait_until(partial(_are_all_in_sync, admin), seconds=STALL_SECONDS)
            copied = source.count
            source.write_round()
            await_all_copies(admin, copiers, copied + COPIED_BEFORE_A_KILL)
            victim = _victim(admin, round_number, list(copiers))
            time.sleep(chance.random() * WITHIN_A_TRANSACTION_SECONDS)
            running.kill(victim)
            await_all_copies(admin, copiers, copied + COPIED_WITHOUT_THE_BROKER)
            running.restart(victim)
        source.write_round()
        await_all_copies(admin, copiers, source.count)
    return source


def _are_all_in_sync(admin: Admin) -> bool:
    return in_sync_replicas(admin, [SOURCE, *COPIERS, *COORDINATOR_TOPICS]) == REPLICAS


def _victim(admin: Admin, round_number: int, targets: list[str]) -> int:
    """Return the coordinator of one copier's transactions, or the leader of a partition of the next one's target."""
    target = targets[round_number // 2 % len(targets)]
    if round_number % 2 == 0:
        return admin.describe_transactions([target])[target].coordinator.id
    following = targets[(round_number // 2 + 1) % len(targets)]
    return admin.describe_topics([following])[following].partitions[round_number // 2 % PARTITIONS].leader
