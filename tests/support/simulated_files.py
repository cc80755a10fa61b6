"""A disk in memory that forgets like a real one: implements `runtime.files.Files`, with crashes, torn pages and errors.

What POSIX promises and no more. A file's content survives a crash once it was synced; of what was written since, each
512-byte sector may or may not have reached the disk, and the length may be anything between. A name survives once its
directory was synced; of the changes since, the first few may have reached the disk. A rename is one change. Syncing a
file does not sync its name. Errors are injected per call; capacity makes writes fail with ENOSPC. The power can be made
to go off in the middle of whatever is being done, or the process to die beside a write of a given content.
"""

from __future__ import annotations

import enum
import errno
import os
import random
from collections.abc import Callable

from barnabas.runtime.files import Buffer

SECTOR_BYTES = 512

Fault = Callable[[str, str], OSError | None]
"""Given a call ("write", "sync", "open", ...) and a path: the error it shall end in."""


CHANGES = frozenset({"write", "sync", "truncate", "rename", "unlink", "make_dirs", "sync_dir"})
"""The calls after which the disk is another one."""


class PowerOff(BaseException):
    """The power went off in the middle of a call; nothing that runs catches it, as nothing runs any more."""


class Moment(enum.Enum):
    """When the process dies: before a write, with half of it done, or after it and before anything else."""

    BEFORE = "before"
    WITHIN = "within"
    AFTER = "after"


Death = Callable[[str, bytes], Moment | None]
"""Given the path and the bytes of a write: when the process dies beside it, or None."""


class Node:
    """A file: what programs see, and what the disk has."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = b""
        self.modified_ms = 0

    def sync(self) -> None:
        self.durable = bytes(self.cached)

    def crash(self, chance: random.Random) -> None:
        """Keep what was synced, and some of the rest, sector by sector."""
        cached, durable = self.cached, self.durable
        if cached == durable:
            return
        size = chance.choice((len(durable), len(cached), chance.randint(*sorted((len(durable), len(cached))))))
        kept = bytearray(durable[:size].ljust(size, b"\0"))
        probability = chance.choice((0.0, 0.5, 0.9, 1.0))
        for start in range(0, size, SECTOR_BYTES):
            if chance.random() < probability:
                sector = cached[start : min(start + SECTOR_BYTES, size)]
                kept[start : start + len(sector)] = sector
        self.cached = kept
        self.durable = bytes(kept)


class Directory:
    """Names: what programs see, what the disk has, and the changes between them, in order."""

    def __init__(self) -> None:
        self.cached: dict[str, Node | Directory] = {}
        self.durable: dict[str, Node | Directory] = {}
        self.changes: list[Callable[[dict[str, Node | Directory]], object]] = []

    def change(self, change: Callable[[dict[str, Node | Directory]], object]) -> None:
        change(self.cached)
        self.changes.append(change)

    def sync(self) -> None:
        self.durable = dict(self.cached)
        self.changes.clear()

    def crash(self, chance: random.Random) -> None:
        survived = chance.randint(0, len(self.changes))
        names = dict(self.durable)
        for change in self.changes[:survived]:
            change(names)
        self.cached = names
        self.sync()
        for node in list(names.values()):
            node.crash(chance)


_ENDLESS_BYTES = 1 << 28
"""The size of a disk without an end: small, since each copy of a disk holds what takes a share of it."""


class SimulatedFile:
    """An open file; after a crash every call fails, as the process that opened it is gone."""

    def __init__(self, disk: SimulatedFiles, path: str, node: Node) -> None:
        self._disk = disk
        self._generation = disk.generation
        self._node: Node | None = node
        self.path = path

    def is_cached(self, position: int) -> bool:
        return True

    def prefetch(self, position: int, size: int) -> None:
        pass

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor")

    def size(self) -> int:
        return len(self._open_node("size").cached)

    def read(self, position: int, size: int) -> bytes:
        return bytes(self._open_node("read").cached[position : position + size])

    def read_into(self, buffer: memoryview, position: int) -> int:
        data = self.read(position, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def write(self, buffers: tuple[Buffer, ...], position: int) -> int:
        node = self._open_node("write-begin")
        data = b"".join(buffers)
        death = None if self._disk.death is None else self._disk.death(self.path, data)
        if death is not None:
            written = {Moment.BEFORE: 0, Moment.WITHIN: len(data) // 2, Moment.AFTER: len(data)}[death]
            if written:
                self._put(node, data[:written], position)
            self._disk.power_off()
            raise PowerOff("write", self.path)
        try:
            room = self._disk.room_for(node, position + len(data))
            if room < position + len(data):
                self._put(node, data[: max(0, room - position)], position)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            self._disk.check("write", self.path)
        except OSError:
            del node.cached[position:]
            raise
        except PowerOff:
            self._put(node, data[: self._disk.half_of(len(data))], position)
            raise
        self._put(node, data, position)
        node.modified_ms = self._disk.now_ms()
        return len(data)

    @staticmethod
    def _put(node: Node, data: bytes, position: int) -> None:
        if position > len(node.cached):
            node.cached += bytes(position - len(node.cached))
        node.cached[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        node = self._open_node("truncate")
        del node.cached[size:]
        node.cached += bytes(size - len(node.cached))

    def allocate(self, size: int) -> None:
        node = self._open_node("allocate")
        if self._disk.room_for(node, size) < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        self._put(node, bytes(size - len(node.cached)), len(node.cached))

    def sync(self) -> None:
        self._open_node("sync").sync()

    def close(self) -> None:
        if self._node is not None:
            self._node = None
            self._disk.open_files -= 1

    def _open_node(self, call: str) -> Node:
        if self._node is None or self._generation != self._disk.generation:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        self._disk.check(call, self.path)
        return self._node


class SimulatedFiles:
    """The disk. `crash` is the power going off and coming back; `fault` injects errors; capacity None is endless.

    now_ms: what files get as their time of last change.
    """

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.root = Directory()
        self.generation = 0
        self.open_files = 0
        self.capacity_bytes = capacity_bytes
        self.fault: Fault | None = None
        self.death: Death | None = None
        self.now_ms: Callable[[], int] = lambda: 0
        self.calls: dict[str, int] = {}
        self._changes_left: int | None = None
        self._is_off = False
        self._half_done = True

    def crash(self, chance: random.Random) -> None:
        """Lose what was not synced, or part of it, and all open files."""
        self.power_on()
        self.generation += 1
        self.open_files = 0
        self.root.crash(chance)

    def kill(self) -> None:
        """The process dies and the machine goes on: nothing written is lost, only what the process had open."""
        self.power_on()
        self.generation += 1
        self.open_files = 0

    def power_off_after(self, changes: int) -> None:
        """The power goes off when the disk has been changed so many times from now on: every call raises PowerOff."""
        self._changes_left = changes

    def power_off(self) -> None:
        """The power is off now: every call raises PowerOff."""
        self._is_off = True

    def power_on(self) -> None:
        """Calls work again; `crash` and `kill` do it."""
        self._changes_left = None
        self._is_off = False

    def half_of(self, size: int) -> int:
        """How much of a write got through when the power went off in its middle; nothing when it was off before."""
        half, self._half_done = (0 if self._half_done else size // 2), True
        return half

    def check(self, call: str, path: str) -> None:
        """Count the call, and raise the error injected for it."""
        self.calls[call] = self.calls.get(call, 0) + 1
        if self._is_off:
            raise PowerOff(call, path)
        if self._changes_left is not None and call in CHANGES:
            self._changes_left -= 1
            if self._changes_left < 0:
                self._is_off = True
                self._half_done = False
                raise PowerOff(call, path)
        error = self.fault(call, path) if self.fault is not None else None
        if error is not None:
            raise error

    def room_for(self, node: Node, size: int) -> int:
        """Up to which size the file may grow, at most `size`."""
        if self.capacity_bytes is None or size <= len(node.cached):
            return size
        return min(size, len(node.cached) + self.free_bytes("/"))

    # -- Files

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> SimulatedFile:
        self.check("open", path)
        parent, name = self._parent(path)
        node = parent.cached.get(name)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = made = Node()
            parent.change(lambda names: names.__setitem__(name, made))
        if truncate:
            node.cached.clear()
        self.open_files += 1
        return SimulatedFile(self, path, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), Directory)

    def list_dir(self, path: str) -> list[str]:
        self.check("list_dir", path)
        return sorted(self._directory(path).cached)

    def make_dirs(self, path: str) -> None:
        directory = self.root
        for part in self._parts(path):
            if part not in directory.cached:
                self.check("make_dirs", path)
                made = Directory()
                directory.change(lambda names, part=part, made=made: names.__setitem__(part, made))  # type: ignore[misc]
            child = directory.cached[part]
            if not isinstance(child, Directory):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            directory = child

    def rename(self, source: str, destination: str) -> None:
        self.replace(source, destination)

    def replace(self, source: str, destination: str) -> None:
        self.check("rename", source)
        parent, old = self._parent(source)
        target, new = self._parent(destination)
        if old not in parent.cached:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        if target is not parent:
            raise OSError(errno.EXDEV, "the simulated disk renames within a directory only", source)

        def change(names: dict[str, Node | Directory]) -> None:
            if old in names:
                names[new] = names.pop(old)

        parent.change(change)

    def unlink(self, path: str) -> None:
        self.check("unlink", path)
        parent, name = self._parent(path)
        if name not in parent.cached:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        parent.change(lambda names: names.pop(name, None))

    def remove_tree(self, path: str) -> None:
        if self.exists(path):
            self.unlink(path)

    def sync_dir(self, path: str) -> None:
        self.check("sync_dir", path)
        self._directory(path).sync()

    def read_bytes(self, path: str) -> bytes:
        file = self.open(path)
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    def write_atomically(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True, truncate=True)
        try:
            file.write((data,), 0)
            file.sync()
        finally:
            file.close()
        self.replace(temporary, path)
        self.sync_dir(os.path.dirname(path))

    def free_bytes(self, path: str) -> int:
        if self.capacity_bytes is None:
            return _ENDLESS_BYTES
        return max(0, self.capacity_bytes - self.used_bytes)

    def total_bytes(self, path: str) -> int:
        self.check("total_bytes", path)
        return self.capacity_bytes if self.capacity_bytes is not None else _ENDLESS_BYTES

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._file(path).modified_ms = modified_ms

    @property
    def used_bytes(self) -> int:
        """Bytes of all files."""
        return self._used(self.root)

    def write_bytes(self, path: str, data: bytes) -> None:
        """For tests: give the file this content, durably, behind everybody's back."""
        parent, name = self._parent(path)
        node = parent.cached.get(name)
        if not isinstance(node, Node):
            node = parent.cached[name] = parent.durable[name] = Node()
        node.cached = bytearray(data)
        node.sync()

    def copy(self) -> SimulatedFiles:
        """For tests: a disk with the same files, all durable."""
        twin = SimulatedFiles(self.capacity_bytes)
        twin.root = _copy(self.root)
        return twin

    def _used(self, directory: Directory) -> int:
        return sum(
            len(node.cached) if isinstance(node, Node) else self._used(node) for node in directory.cached.values()
        )

    @staticmethod
    def _parts(path: str) -> list[str]:
        return [part for part in path.split("/") if part]

    def _find(self, path: str) -> Node | Directory | None:
        node: Node | Directory | None = self.root
        for part in self._parts(path):
            if not isinstance(node, Directory):
                return None
            node = node.cached.get(part)
        return node

    def _file(self, path: str) -> Node:
        found = self._find(path)
        if not isinstance(found, Node):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def _directory(self, path: str) -> Directory:
        found = self._find(path)
        if not isinstance(found, Directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def _parent(self, path: str) -> tuple[Directory, str]:
        parts = self._parts(path)
        return self._directory("/".join(parts[:-1])), parts[-1]


def _copy(directory: Directory) -> Directory:
    twin = Directory()
    for name, node in directory.cached.items():
        if isinstance(node, Directory):
            twin.cached[name] = _copy(node)
        else:
            copied = Node()
            copied.cached = bytearray(node.cached)
            copied.sync()
            twin.cached[name] = copied
    twin.sync()
    return twin
