"""The `.snapshot` files of idempotent producers' state, as far as they come and go with segments.

Functions on files, called under the log's lock and by the loader. A snapshot that is missing is rebuilt from the log;
one that lies beyond the log's end would be wrong, and is deleted. Kafka: ProducerStateManager.
"""

from __future__ import annotations

import os

from barnabas.runtime.files import Files
from barnabas.storage.file_names import SNAPSHOT_SUFFIX, base_offset_of


def snapshot_offsets(files: Files, directory: str) -> list[int]:
    """Offsets of the snapshots in a log's directory, rising."""
    names = (name for name in files.list_dir(directory) if name.endswith(SNAPSHOT_SUFFIX))
    return sorted(offset for offset in map(base_offset_of, names) if offset is not None)


def delete_snapshots(files: Files, directory: str, *, above: int = -1, below: int | None = None) -> None:
    """Delete the snapshots of offsets above `above`, or below `below`. Raises OSError."""
    for name in files.list_dir(directory):
        offset = base_offset_of(name) if name.endswith(SNAPSHOT_SUFFIX) else None
        if offset is not None and (offset < below if below is not None else offset > above):
            files.unlink(os.path.join(directory, name))
