"""A topic is copied exactly once while the broker is killed (-9) and started again, in the middle of transactions.

Two libraries copy; kafka-python, which does neither, reads the copy as a reader of committed records. Afterwards no
transaction is left open: the last stable offset is the end of the log.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, NewTopic
from tests.clients.topic_copies import (
    COPIED_BEFORE_A_KILL,
    PARTITIONS,
    SOURCE,
    WITHIN_A_TRANSACTION_SECONDS,
    Source,
    await_copies,
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

TARGET = "copy"
PROPERTIES = {"transaction.state.log.num.partitions": "3", "transaction.state.log.replication.factor": "1"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BarnabasProcess]:
    running = BarnabasProcess(tmp_path, SERVER_PROPERTIES | PROPERTIES, port=free_port())
    with running.running():
        yield running


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("library", COPIERS)
def test_each_record_is_copied_once(broker: BarnabasProcess, library: str, kills: int) -> None:
    bootstrap = broker.bootstrap_servers
    chance = random.Random(kills)
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)])
    source = Source(bootstrap)
    copier = CopierThread(COPIERS[library], bootstrap, SOURCE, TARGET)
    with copier.running(), Admin(bootstrap) as admin:
        for _ in range(kills):
            copied = source.count
            source.write_round()
            await_copies(admin, copier, TARGET, copied + COPIED_BEFORE_A_KILL)
            time.sleep(chance.random() * WITHIN_A_TRANSACTION_SECONDS)
            broker.kill()
            broker.start()
        source.write_round()
        await_copies(admin, copier, TARGET, source.count)
    assert read_committed(bootstrap, TARGET) == source.values
    await_ended_transactions(bootstrap)
