"""A topic is copied exactly once while the broker is killed (-9) and started again, in the middle of transactions.

Three libraries copy at the same time, each to a topic of its own; kafka-python, which copies nothing, reads the copies
as a reader of committed records. Afterwards no transaction is left open: the last stable offset is the end of the log.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, FeatureUpdate, NewTopic
from tests.clients.topic_copies import (
    COPIED_BEFORE_A_KILL,
    PARTITIONS,
    SOURCE,
    WITHIN_A_TRANSACTION_SECONDS,
    Source,
    await_all_copies,
    await_ended_transactions,
    read_committed,
)
from tests.clients.transactional_copiers import COPIERS, CopierThread
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_fixtures import AGAINST_KAFKA, SERVER_PROPERTIES
from tests.support.server_process import free_port

pytestmark = pytest.mark.skipif(
    AGAINST_KAFKA, reason="Apache Kafka cannot be restarted within ZooKeeper's session time-out"
)

PROPERTIES = {"transaction.state.log.num.partitions": "3", "transaction.state.log.replication.factor": "1"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BarnabasProcess]:
    running = BarnabasProcess(tmp_path, SERVER_PROPERTIES | PROPERTIES, port=free_port())
    with running.running():
        yield running


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("transaction_version", "kills"),
    [(0, 5), pytest.param(0, 100, marks=pytest.mark.slow), pytest.param(2, 100, marks=pytest.mark.slow)],
)
def test_each_record_is_copied_once(
    broker: BarnabasProcess,
    transaction_version: int,
    kills: int,
) -> None:
    bootstrap = broker.bootstrap_servers
    chance = random.Random(kills)
    with Admin(bootstrap) as admin:
        if transaction_version:
            admin.update_features({"transaction.version": FeatureUpdate(transaction_version)})
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, *COPIERS)])
    source = Source(bootstrap)
    copiers = {target: CopierThread(copier, bootstrap, SOURCE, target) for target, copier in COPIERS.items()}
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(bootstrap))
        for copier in copiers.values():
            stack.enter_context(copier.running())
        for _ in range(kills):
            copied = source.count
            source.write_round()
            await_all_copies(admin, copiers, copied + COPIED_BEFORE_A_KILL)
            time.sleep(chance.random() * WITHIN_A_TRANSACTION_SECONDS)
            broker.kill()
            broker.start()
        source.write_round()
        await_all_copies(admin, copiers, source.count)
    for target, copier in copiers.items():
        assert read_committed(bootstrap, target) == source.values, (target, copier.failures)
    await_ended_transactions(bootstrap)
