"""Remembers the last micro-batch that the sink of a streaming query has committed, in a file beside the checkpoint.

Called by `stream_writer` on the driver, one process at a time. The file is replaced atomically; no lock.

The checkpoint directory belongs to one query, so the file in it needs no query id. When Spark dies between the sink's
commit and its own, it plans the micro-batch again under the same number. By this file the sink recognizes it.
"""

from __future__ import annotations

import json
import os

import pyarrow.fs as pafs

_DIRECTORY = "barnabas-sink"
_FILE_NAME = "committed.json"


class CommittedBatches:
    """The commits of one query. `checkpoint_location` is a path or URI of a file system that pyarrow knows."""

    def __init__(self, checkpoint_location: str) -> None:
        self._location = checkpoint_location

    def last(self) -> int:
        """Return the number of the last committed micro-batch, or -1. Raises ValueError for a damaged file."""
        filesystem, path = self._place()
        if filesystem.get_file_info(path).type == pafs.FileType.NotFound:
            return -1
        with filesystem.open_input_stream(path) as file:
            return int(json.loads(file.read())["batchId"])

    def commit(self, batch_id: int, rows: int) -> None:
        """Note that all rows of the micro-batch are written."""
        filesystem, path = self._place()
        filesystem.create_dir(os.path.dirname(path), recursive=True)
        # The file is moved into place whole: a crash while writing leaves the commit before.
        temporary = f"{path}.tmp"
        with filesystem.open_output_stream(temporary) as file:
            file.write(json.dumps({"batchId": batch_id, "rows": rows}).encode())
        filesystem.move(temporary, path)

    def _place(self) -> tuple[pafs.FileSystem, str]:
        if "://" in self._location or self._location.startswith("file:"):
            filesystem, root = pafs.FileSystem.from_uri(self._location)
        else:
            filesystem, root = pafs.LocalFileSystem(), os.path.abspath(self._location)
        return filesystem, f"{root}/{_DIRECTORY}/{_FILE_NAME}"
