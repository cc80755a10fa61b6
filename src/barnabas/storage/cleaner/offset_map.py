"""The newest offset of each key in the dirty part of a log, by which the cleaner decides. Two maps, one meaning.

Owned by the cleaning that fills it, in the cleaner's process; no lock. `offset_map_for` picks the quick map when the
dirty part cannot hold more keys than fit it, else the map that packs an entry into 24 bytes.
Kafka: OffsetMap, SkimpyOffsetMap.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Protocol

from barnabas.storage.cleaner.config import SKIMPY_BYTES_PER_ENTRY

NO_OFFSET: Final = -1

EXACT_BYTES_PER_ENTRY: Final = 224
"""The most memory that an entry of `ExactOffsetMap` takes: key object, number, and the table while it grows.

Measured with tracemalloc (Python 3.11, 700,000 keys): 137 bytes for 8-byte keys, 175 for the longest; 205 while the
table is being copied; the allocator rounds each object up to 16 bytes. And two for `superseded`.
"""
LONGEST_PLAIN_KEY: Final = 46
"""Longer keys are kept as a digest that is one byte longer, so that no plain key equals a digest."""

_DIGEST_SIZE: Final = 16
_EMPTY: Final = bytes(_DIGEST_SIZE)


class OffsetMap(Protocol):
    """Newest offsets by key. latest_offset: the last offset that was taken into account, -1 at first.

    superseded: once `finish` was called, a byte for each offset from `start_offset` on, not 0 for records whose key has
    a newer one; None where that is not known.
    """

    slots: int
    start_offset: int
    latest_offset: int
    superseded: bytes | None

    def __len__(self) -> int:
        """Return the number of keys."""

    def put(self, key: bytes, offset: int) -> None:
        """Note that `offset`, larger than all before, is the newest of `key`. The map must not be full."""

    def put_all(self, keys: Sequence[bytes], offsets: Sequence[int], *, in_order: bool = False) -> None:
        """Note several keys; there must be room for all of them. in_order: no offset is left out between them."""

    def newest(self, keys: Sequence[bytes]) -> list[int]:
        """Return the newest offset of each key, -1 for unknown ones."""

    def finish(self) -> None:
        """Note that no more keys come."""

    @property
    def utilization(self) -> float:
        """How full the map is: 0 to 1."""


class ExactOffsetMap:
    """A dictionary: short keys themselves, digests of long ones.

    dirty_offsets: how many offsets, from the start on, may be put. For most of the log's dirty part it can be told from
    the offset alone whether a record stays, without its key. That holds as long as offsets only rise: a producer wrote
    them, and may have written anything.
    """

    __slots__ = ("_flags", "_offsets", "latest_offset", "slots", "start_offset", "superseded")

    def __init__(self, memory_bytes: int, start_offset: int = 0, dirty_offsets: int = 0) -> None:
        self.slots = memory_bytes // EXACT_BYTES_PER_ENTRY
        self.start_offset = start_offset
        self.latest_offset = NO_OFFSET
        self.superseded: bytes | None = None
        self._offsets: dict[bytes, int] = {}
        self._flags: bytearray | None = bytearray(dirty_offsets) if dirty_offsets else None

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> None:
        """Note the newest offset of one key."""
        self._offsets[_short(key)] = offset
        self.latest_offset = offset
        self._flags = None

    def put_all(self, keys: Sequence[bytes], offsets: Sequence[int], *, in_order: bool = False) -> None:
        """Note the newest offsets of several keys."""
        if not keys:
            return
        self._offsets.update(zip(_all_short(keys), offsets, strict=True))
        if self._flags is not None:
            count = len(offsets)
            at = offsets[0] - self.start_offset
            if in_order and offsets[0] > self.latest_offset and 0 <= at <= len(self._flags) - count:
                self._flags[at : at + count] = b"\1" * count
            else:
                self._flags = None
        self.latest_offset = offsets[-1]

    def finish(self) -> None:
        """Note that no more keys come: of all offsets that were put, those in the map are not superseded."""
        flags = self._flags
        if flags is not None:
            start = self.start_offset
            for offset in self._offsets.values():
                flags[offset - start] = 0
            self.superseded = bytes(flags)
            self._flags = None

    def newest(self, keys: Sequence[bytes]) -> list[int]:
        """Return the newest offset of each key, -1 for unknown ones."""
        get = self._offsets.get
        return [get(key, NO_OFFSET) for key in _all_short(keys)]

    @property
    def utilization(self) -> float:
        """How full the map is: 0 to 1."""
        return len(self._offsets) / self.slots


# Open addressing without pointers: a slot is a digest of 16 bytes and an offset of 8, and a slot of zeros is empty. A
# digest is first looked for where its bytes 0-3 say (modulo the slots), then where bytes 1-4 say, and so on up to bytes
# 12-15: thirteen independent places that cost no second hash. Only then the slots behind the last place are tried one
# by one. In a map that is 0.9 full, the default load factor, a key is found after 2.6 looks on average. Two keys of one
# digest would count as one key; with 16 bytes of BLAKE2b that is as good as impossible.


class SkimpyOffsetMap:
    """A hash table in one bytearray, probed as Kafka's: first by the bytes of the digest, then place by place."""

    __slots__ = ("_entries", "_table", "latest_offset", "slots", "start_offset", "superseded")

    def __init__(self, memory_bytes: int) -> None:
        self.slots = memory_bytes // SKIMPY_BYTES_PER_ENTRY
        self.start_offset = 0
        self.latest_offset = NO_OFFSET
        self.superseded: bytes | None = None
        self._entries = 0
        self._table = bytearray(self.slots * SKIMPY_BYTES_PER_ENTRY)

    def __len__(self) -> int:
        return self._entries

    def put(self, key: bytes, offset: int) -> None:
        """Note one key. Raises ValueError when a new key finds no room."""
        self.put_all((key,), (offset,))

    def put_all(self, keys: Sequence[bytes], offsets: Sequence[int], *, in_order: bool = False) -> None:
        """Note the newest offsets of several keys. Raises ValueError when a new key finds no room."""
        table, slots = self._table, self.slots
        is_there, number = table.startswith, int.from_bytes
        for key, offset in zip(keys, offsets, strict=True):
            digest = blake2b(key, digest_size=_DIGEST_SIZE).digest()
            place = number(digest[:4], "big") % slots * SKIMPY_BYTES_PER_ENTRY
            if not is_there(digest, place):
                place = self._place(digest)
                if place < 0:
                    raise ValueError(
                        f"Attempted to add a new entry to a full offset map, entries: {self._entries}, slots: {slots}"
                    )
                if not is_there(digest, place):
                    table[place : place + _DIGEST_SIZE] = digest
                    self._entries += 1
            table[place + _DIGEST_SIZE : place + SKIMPY_BYTES_PER_ENTRY] = offset.to_bytes(8, "big")
            self.latest_offset = offset

    def newest(self, keys: Sequence[bytes]) -> list[int]:
        """Return the newest offset of each key, -1 for unknown ones."""
        table, slots = self._table, self.slots
        is_there, number = table.startswith, int.from_bytes
        newest = []
        for key in keys:
            digest = blake2b(key, digest_size=_DIGEST_SIZE).digest()
            place = number(digest[:4], "big") % slots * SKIMPY_BYTES_PER_ENTRY
            if not is_there(digest, place):
                place = self._place(digest)
                if place < 0 or not is_there(digest, place):
                    newest.append(NO_OFFSET)
                    continue
            newest.append(number(table[place + _DIGEST_SIZE : place + SKIMPY_BYTES_PER_ENTRY], "big"))
        return newest

    def finish(self) -> None:
        """Do nothing: which offsets were overwritten is not kept."""

    def _place(self, digest: bytes) -> int:
        """Return the place of the digest, or an empty one for it; -1 when it is not there and all are taken."""
        slots = self.slots
        is_there = self._table.startswith
        for attempt in range(slots + _DIGEST_SIZE - 4):
            at = min(attempt, _DIGEST_SIZE - 4)
            probe = int.from_bytes(digest[at : at + 4], "big") + max(0, attempt - _DIGEST_SIZE + 4)
            place = probe % slots * SKIMPY_BYTES_PER_ENTRY
            if is_there(digest, place) or is_there(_EMPTY, place):
                return place
        return -1

    @property
    def utilization(self) -> float:
        """How full the map is: 0 to 1."""
        return self._entries / self.slots


def offset_map_for(memory_bytes: int, load_factor: float, start_offset: int, dirty_offsets: int) -> OffsetMap:
    """Make a map that takes at most `memory_bytes`, for a dirty part of `dirty_offsets` offsets from the start on."""
    if dirty_offsets <= int(memory_bytes // EXACT_BYTES_PER_ENTRY * load_factor):
        return ExactOffsetMap(memory_bytes, start_offset, max(dirty_offsets, 0))
    return SkimpyOffsetMap(memory_bytes)


def _short(key: bytes) -> bytes:
    if len(key) <= LONGEST_PLAIN_KEY:
        return key
    return blake2b(key, digest_size=LONGEST_PLAIN_KEY + 1).digest()


def _all_short(keys: Sequence[bytes]) -> Sequence[bytes]:
    if max(map(len, keys), default=0) <= LONGEST_PLAIN_KEY:
        return keys
    return [_short(key) for key in keys]
