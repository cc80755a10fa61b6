"""`.kafka_cleanshutdown`: the mark of a log directory that was closed in order and needs no recovery.

Functions on files, called by LogManager at start and shutdown. The content is JSON with the broker's epoch (KIP-966).
Kafka: CleanShutdownFileHandler.
"""

from __future__ import annotations

import json
import os

from barnabas.runtime.files import Files

FILE_NAME = ".kafka_cleanshutdown"
NO_BROKER_EPOCH = -1


def write_clean_shutdown(files: Files, directory: str, broker_epoch: int = NO_BROKER_EPOCH) -> None:
    """Set the mark; durable when this returns. Raises OSError."""
    content = json.dumps({"version": "0", "broker_epoch": str(broker_epoch)}, separators=(",", ":"))
    files.write_atomically(os.path.join(directory, FILE_NAME), content.encode())


def take_clean_shutdown(files: Files, directory: str) -> int | None:
    """Remove the mark, so that a crash while loading counts as a crash; return its broker epoch, None without a mark.

    A mark with unreadable content counts as one of epoch -1, as in Kafka. Raises OSError.
    """
    path = os.path.join(directory, FILE_NAME)
    try:
        content = files.read_bytes(path)
    except FileNotFoundError:
        return None
    # Durable before a log is opened: were the mark still there after a crash, nothing would be recovered.
    files.unlink(path)
    files.sync_dir(directory)
    try:
        return int(json.loads(content)["broker_epoch"])
    except (ValueError, KeyError, TypeError):
        return NO_BROKER_EPOCH
