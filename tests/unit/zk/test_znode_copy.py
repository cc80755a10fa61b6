"""The copy of a cluster's metadata: complete, checked, begun again after an interruption, and of one cluster only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from barnabas.runtime.clock import SystemClock
from barnabas.zk.store.embedded_store import EmbeddedStore
from barnabas.zk.store.store import Store
from barnabas.zk.znodes.znode_access import creations_with_parents
from barnabas.zk.znodes.znode_copy import CopyRefused, check_equal, check_no_broker, read_tree, write_tree

ID = b'{"version":"1","id":"first"}'
PERSISTENT = {
    "/brokers/topics/orders": b"assignment",
    "/brokers/topics/orders/partitions/0/state": b"state",
    "/config/topics/orders": b"settings",
    "/controller_epoch": b"7",
    "/config/changes": b"",
    "/brokers/ids": b"",
    "/brokers/seqid": b"",
    "/cluster/id": ID,
}


@pytest.fixture
def new_store() -> Iterator[Callable[[], Store]]:
    with ExitStack() as stores:

        def make() -> Store:
            store = EmbeddedStore(None, SystemClock())
            store.start()
            stores.callback(store.close)
            return store.new_session()

        yield make


def fill(store: Store, znodes: dict[str, bytes]) -> None:
    for path, data in znodes.items():
        store.batch(creations_with_parents(path, data))


def test_what_is_copied_and_what_is_not(new_store: Callable[[], Store]) -> None:
    source, target = new_store(), new_store()
    fill(source, PERSISTENT)
    source.create("/controller", b"0", ephemeral=True)
    source.create("/config/changes/config_change_", b"notice", sequential=True)
    for _ in range(3):
        source.set("/brokers/seqid", b"")
    tree = read_tree(source)
    assert "/controller" not in tree.data
    write_tree(tree, target, "the target")
    copied = read_tree(target)
    assert {path: copied.data[path] for path in PERSISTENT} == PERSISTENT
    assert set(copied.data) - set(PERSISTENT) == {
        "/brokers",
        "/brokers/topics",
        "/brokers/topics/orders/partitions",
        "/brokers/topics/orders/partitions/0",
        "/cluster",
        "/config",
        "/config/topics",
    }
    assert target.set("/brokers/seqid", b"").version == 4, "the next id is one that no broker has"


def test_an_interrupted_copy_is_completed(new_store: Callable[[], Store]) -> None:
    source, target = new_store(), new_store()
    fill(source, PERSISTENT)
    fill(target, {"/brokers/topics/orders": b"older", "/controller_epoch": b"7"})
    write_tree(read_tree(source), target, "the target")
    assert read_tree(target).data == read_tree(source).data
    write_tree(read_tree(source), target, "the target")


def test_clusters_are_not_mixed(new_store: Callable[[], Store]) -> None:
    source, other, foreign = new_store(), new_store(), new_store()
    fill(source, PERSISTENT)
    fill(other, {"/cluster/id": b"another"})
    fill(foreign, {"/hbase": b""})
    tree = read_tree(source)
    with pytest.raises(CopyRefused, match="belongs to another cluster already: another"):
        write_tree(tree, other, "the target")
    with pytest.raises(CopyRefused, match="it has /hbase"):
        write_tree(tree, foreign, "the target")
    assert read_tree(foreign).data.keys() == {"/hbase"}


def test_a_wrong_copy_is_found(new_store: Callable[[], Store]) -> None:
    source, target = new_store(), new_store()
    fill(source, PERSISTENT)
    tree = read_tree(source)
    write_tree(tree, target, "the target")
    target.set("/controller_epoch", b"8")
    with pytest.raises(CopyRefused, match="the target differs from what was copied, at /controller_epoch"):
        check_equal(tree, target, "the target")


def test_registered_brokers_stop_a_copy(new_store: Callable[[], Store]) -> None:
    store = new_store()
    check_no_broker(store, "the store")
    fill(store, {"/brokers/ids": b""})
    store.create("/brokers/ids/3", ephemeral=True)
    with pytest.raises(CopyRefused, match="the brokers 3 are registered in the store"):
        check_no_broker(store, "the store")
