"""Producer ids come from blocks, and no id is given twice, whoever asks."""

from __future__ import annotations

import threading

import pytest

from barnabas.metadata.producer_ids import BLOCK_SIZE, ProducerIdManager
from barnabas.protocol.errors import ApiError
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.embedded_store import EmbeddedStore
from barnabas.zk.znodes.broker_zk_data import ProducerIdsBlock
from tests.support.inline_store import InlineStore
from tests.support.mock_clock import MockClock


def client_of(store: InlineStore) -> KafkaZkClient:
    client = KafkaZkClient(store.new_session(), MockClock())
    client.make_sure_persistent_paths_exist()
    return client


def test_blocks_of_a_thousand() -> None:
    store = InlineStore(MockClock())
    zk = client_of(store)
    first, second = ProducerIdManager(0, zk), ProducerIdManager(1, client_of(store))
    assert zk.producer_id_block()[0] is None  # a start writes nothing
    assert [first.generate(), first.generate(), second.generate()] == [0, 1, 1000]
    assert [first.generate() for _ in range(BLOCK_SIZE - 1)][-2:] == [999, 2000]
    assert zk.producer_id_block()[0] == ProducerIdsBlock(0, 2000, 1000)
    # after a restart the rest of the block is lost
    assert ProducerIdManager(0, zk).generate() == 3000


def test_a_block_another_broker_took_meanwhile_is_not_used() -> None:
    store = InlineStore(MockClock())
    zk, other = client_of(store), ProducerIdManager(1, client_of(store))
    original = zk.producer_id_block

    def read_then_lose() -> tuple[ProducerIdsBlock | None, int]:
        found = original()
        zk.producer_id_block = original  # type: ignore[method-assign]
        assert other.generate() == 0
        return found

    zk.producer_id_block = read_then_lose  # type: ignore[method-assign]
    assert ProducerIdManager(0, zk).generate() == 1000


def test_the_end_of_all_ids() -> None:
    zk = client_of(InlineStore(MockClock()))
    _, version = zk.producer_id_block()
    zk.update_producer_id_block(ProducerIdsBlock(0, 2**63 - 1500, 1000), version)
    with pytest.raises(ApiError, match="Have exhausted all producerIds"):
        ProducerIdManager(0, zk).generate()


def test_threads_get_different_ids() -> None:
    store = EmbeddedStore(None, MockClock())
    store.start()
    zk = KafkaZkClient(store.new_session(), MockClock())
    zk.make_sure_persistent_paths_exist()
    manager = ProducerIdManager(0, zk)
    taken: list[list[int]] = [[], [], []]

    def take(into: list[int]) -> None:
        into.extend(manager.generate() for _ in range(700))

    threads = [threading.Thread(target=take, args=(into,)) for into in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    assert sorted(number for into in taken for number in into) == list(range(2100))
