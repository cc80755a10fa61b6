"""Which micro-batch of a streaming query the sink has committed last: one small file beside Spark's checkpoint.

Called by `stream_writer` on the driver, one process at a time; the file is replaced atomically, no lock.

The checkpoint directory belongs to one query, so its place in there is the query's id. Spark plans a micro-batch again
under the same number when it died between the sink's commit and its own; this file is how the sink knows.
"""

from __future__ import annotations

import json
import os

import pyarrow.fs as pafs

_DIRECTORY = "barnabas-sink"
_FILE_NAME = "committed.json"


class CommittedBatches:
    """The record of one query's commits; `checkpoint_location` is a path or URI that pyarrow's file systems know."""

    def __init__(self, checkpoint_location: str) -> None:
        self._location = checkpoint_location

    def last(self) -> int:
        """Number of the last micro-batch that was committed, -1 if none was. Raises ValueError for a damaged file."""
        filesystem, path = self._place()
        if filesystem.get_file_info(path).type == pafs.FileType.NotFound:
            return -1
        with filesystem.open_input_stream(path) as file:
            return int(json.loads(file.read())["batchId"])

    def commit(self, batch_id: int, rows: int) -> None:
        """Note that all rows of the micro-batch are written."""
        filesystem, path = self._place()
        filesystem.create_dir(os.path.dirname(path), recursive=True)
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
