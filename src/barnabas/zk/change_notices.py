"""The notices in the store by which one broker says to all others that something else in the store has changed.

Parts of `KafkaZkClient`, used on any thread; stateless, so no lock. Each kind of notice has a parent znode, and the
notices are its children, with sequence numbers. A notice is written last, so that its readers find the change.

Kafka: the paths and prefixes that ZkNodeChangeNotificationListener is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.zk.store import ANY_VERSION, Create
from barnabas.zk.znode_access import ZnodeAccess


class Notice(NamedTuple):
    """A notice: what it says, and when it was written (ms)."""

    data: bytes
    created_ms: int


class ChangeNotices:
    """The notices of one kind. path: of their parent, which exists. prefix: of their names."""

    def __init__(self, access: ZnodeAccess, path: str, prefix: str) -> None:
        self.access = access
        self.path = path
        self._prefix = prefix

    def names(self) -> list[str]:
        """Return the names of the notices, oldest first. Sets the watch on their parent."""
        return [name for name in self.access.children(self.path) if name.startswith(self._prefix)]

    def number(self, name: str) -> int:
        """Return the sequence number in a notice's name; -1 if there is none."""
        digits = name.removeprefix(self._prefix)
        return int(digits) if digits.isdigit() else -1

    def read(self, name: str) -> Notice | None:
        """Return a notice, or None if it is gone."""
        node = self.access.get(f"{self.path}/{name}")
        return None if node is None else Notice(node.data, node.stat.ctime_ms)

    def delete(self, names: Sequence[str]) -> None:
        """Remove notices. Missing ones are ignored."""
        self.access.delete_children(self.path, names, ANY_VERSION)

    def creation(self, data: bytes) -> Create:
        """Return the operation that writes a notice."""
        return Create(f"{self.path}/{self._prefix}", data, sequential=True)
