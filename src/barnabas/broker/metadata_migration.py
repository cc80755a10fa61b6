"""The move of a stopped broker's metadata from its embedded store into ZooKeeper, and back for a cluster of one.

Used by `barnabas cluster migrate` on its main thread: a `with` block holds the locks of the log directories, so that no
broker runs on them. The store from which the metadata come is left as it is, with a mark at which a broker refuses to
start:

    into ZooKeeper   the file metadata.moved beside metadata.sqlite
    back             the znode /barnabas_moved; brokers of Apache Kafka do not look at it

Kafka has no counterpart.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple, NoReturn, Self

from barnabas.config.config_error import ConfigError
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.files import Files, OperatingSystemFiles
from barnabas.storage.directories.log_dir import DirectoryLock
from barnabas.storage.directories.meta_properties import read_meta_properties
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.embedded_store import EmbeddedStore
from barnabas.zk.store.store import Store
from barnabas.zk.store.znode_table import DATABASE_NAME, MOVED_FILE
from barnabas.zk.znodes.broker_zk_data import ClusterIdZNode
from barnabas.zk.znodes.znode_copy import CopyRefused, ZnodeTree, check_no_broker, read_tree, write_tree

MARK_ZNODE: Final = "/barnabas_moved"
_NEW_DIRECTORY: Final = "metadata.new"
"""Beside the database: the directory in which a copy out of ZooKeeper grows."""
_FORMER: Final = ".before"


class Moved(NamedTuple):
    """The result of a move: how many znodes were copied and checked, and of which cluster."""

    znodes: int
    cluster_id: str


class MetadataMigration:
    """One move, to be used in a `with` block. zookeeper: a session with ZooKeeper; address: its name for the user.

    log_dirs: all log directories of the broker; the first has the metadata unless metadata_dir says otherwise. Raises
    LogDirectoryLocked (a broker runs on them), OSError.
    """

    def __init__(
        self,
        log_dirs: Sequence[str],
        metadata_dir: str | None,
        zookeeper: Store,
        address: str,
        files: Files | None = None,
    ) -> None:
        self._log_dirs = list(dict.fromkeys(os.path.abspath(path) for path in log_dirs))
        self.metadata_dir = os.path.abspath(metadata_dir or log_dirs[0])
        self._zookeeper = zookeeper
        self._address = address
        self._files = files or OperatingSystemFiles()
        self._held = ExitStack()

    def __enter__(self) -> Self:
        with self._held:
            for path in self._log_dirs:
                self._held.callback(DirectoryLock(path).release)
            self._held = self._held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def into_zookeeper(self) -> Moved:
        """Copy the embedded store into ZooKeeper, check the copy, and mark the store as moved.

        A second run completes an interrupted one. Raises CopyRefused, StoreError, OSError.
        """
        if not self._files.exists(self._database):
            raise CopyRefused(f"{self.metadata_dir} has no {DATABASE_NAME}: name the broker's log directories")
        check_no_broker(self._zookeeper, self._address)
        source = EmbeddedStore(self.metadata_dir, SystemClock())
        source.start()
        try:
            tree = read_tree(source.new_session())
        finally:
            source.close()
        moved = self._checked(tree, self.metadata_dir)
        if self._zookeeper.exists(MARK_ZNODE) is not None:
            # The mark of an earlier move in the other direction, after which these metadata were the right ones.
            raise CopyRefused(f"{self._address} has metadata that were moved away before: use another chroot")
        write_tree(tree, self._zookeeper, self._address)
        self._files.write_atomically(self._mark, f"{self._address}\n".encode())
        return moved

    def out_of_zookeeper(self) -> Moved:
        """Copy the metadata of a cluster of one broker out of ZooKeeper, and mark them there as moved.

        An embedded store that is here already is kept beside the new one, under another name. Raises CopyRefused,
        StoreError, OSError.
        """
        check_no_broker(self._zookeeper, self._address)
        tree = read_tree(self._zookeeper)
        moved = self._checked(tree, self._address)
        new_database = os.path.join(self.metadata_dir, _NEW_DIRECTORY, DATABASE_NAME)
        mark = self._zookeeper.exists(MARK_ZNODE)
        if mark is None:
            self._check_alone(moved.cluster_id)
            self._copy_beside(tree)
            # Before the new store is put in its place: with both in use, the two could grow apart.
            self._zookeeper.create(MARK_ZNODE, self.metadata_dir.encode())
        elif self._zookeeper.get(MARK_ZNODE).data != self.metadata_dir.encode() or not self._files.exists(new_database):
            raise CopyRefused(f"the metadata in {self._address} were moved away before")
        # Also after an interrupted run, whose copy is complete when the mark is there.
        if self._files.exists(self._database):
            self._files.replace(self._database, self._database + _FORMER)
        self._files.replace(new_database, self._database)
        if self._files.exists(self._mark):
            self._files.unlink(self._mark)
        self._files.sync_dir(self.metadata_dir)
        self._files.remove_tree(os.path.dirname(new_database))
        return moved

    def _copy_beside(self, tree: ZnodeTree) -> None:
        """Write and check an embedded store in a directory beside the present one. Raises CopyRefused, StoreError."""
        directory = os.path.join(self.metadata_dir, _NEW_DIRECTORY)
        if self._files.exists(directory):
            self._files.remove_tree(directory)  # of an interrupted run
        self._files.make_dirs(directory)
        target = EmbeddedStore(directory, SystemClock())
        target.start()
        try:
            write_tree(tree, target.new_session(), directory)
        finally:
            target.close()

    @property
    def _database(self) -> str:
        return os.path.join(self.metadata_dir, DATABASE_NAME)

    @property
    def _mark(self) -> str:
        return os.path.join(self.metadata_dir, MOVED_FILE)

    def _checked(self, tree: ZnodeTree, what: str) -> Moved:
        """Return what is about to be moved. Raises CopyRefused: the store or a directory is of another cluster."""
        if tree.cluster_id is None:
            raise CopyRefused(f"{what} has no cluster id: no broker has ever run on it")
        cluster_id = ClusterIdZNode.decode(tree.cluster_id)
        for path in self._log_dirs:
            properties = read_meta_properties(self._files, path)
            if properties is not None and properties.cluster_id not in (None, cluster_id):
                raise CopyRefused(f"{path} belongs to cluster {properties.cluster_id}, {what} to {cluster_id}")
        return Moved(len(tree.data), cluster_id)

    def _check_alone(self, cluster_id: str) -> None:
        """Check that all replicas are on the broker of these directories. Raises CopyRefused, StoreError."""
        ids = {
            properties.broker_id
            for path in self._log_dirs
            if (properties := read_meta_properties(self._files, path)) is not None
        }
        if len(ids) != 1:
            raise CopyRefused(f"the log directories name {len(ids)} brokers of cluster {cluster_id}, not one")
        client = KafkaZkClient(self._zookeeper, SystemClock())
        for topic in client.topics.assignments(client.topics.all_topics()):
            for partition, assigned in topic.assignment.items():
                if set(assigned.replicas) != ids:
                    raise CopyRefused(
                        f"{partition} has the replicas {list(assigned.replicas)}: only a cluster with all partitions"
                        f" on broker {ids.pop()} can leave ZooKeeper. Move them there with `barnabas reassign`"
                    )


def refuse_moved(files: Files, mark: str) -> NoReturn:
    """Refuse an embedded store whose metadata were moved into ZooKeeper. mark: the file that says so.

    Raises ConfigError: always.
    """
    address = files.read_bytes(mark).decode(errors="replace").strip()
    directory = os.path.dirname(mark)
    raise ConfigError(
        f"the metadata of {directory} were moved into ZooKeeper ({MOVED_FILE}): set zookeeper.connect={address}"
        " and leave out metadata.store=embedded, or go back with `barnabas cluster migrate --back`",
        "zookeeper.connect",
    )


def check_still_in_zookeeper(zookeeper: Store) -> None:
    """Refuse a ZooKeeper whose metadata were moved back into a broker's directory. Raises ConfigError, StoreError."""
    if zookeeper.exists(MARK_ZNODE) is not None:
        where = zookeeper.get(MARK_ZNODE).data.decode(errors="replace")
        raise ConfigError(
            f"the metadata in this ZooKeeper were moved to {where} (znode {MARK_ZNODE}): start the broker without"
            " zookeeper.connect, or with metadata.store=embedded",
            "zookeeper.connect",
        )
