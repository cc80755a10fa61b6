"""The demo's output directory: its files, and the removal of those of an earlier run.

Called by `demo` on the main thread, before anything else. No lock: two demos at once need two directories.
"""

from __future__ import annotations

import os
import shutil

_MARKER = ".barnabas-demo"
_NOTE = "Made by `barnabas demo`, which clears this directory before each run.\n"


class NotOurs(Exception):
    """The directory has files that no demo made."""


class Workspace:
    """The paths below the output directory."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.picture = os.path.join(self.path, "departure-delays.png")
        self.parquet = os.path.join(self.path, "departure-delays.parquet")
        self.broker_data = os.path.join(self.path, "broker")
        self.log = os.path.join(self.path, "demo.log")
        self.broker_log = os.path.join(self.path, "broker.log")

    def prepare(self) -> None:
        """Make the directory, or empty that of an earlier demo. Raises NotOurs for any other directory with files."""
        os.makedirs(self.path, exist_ok=True)
        names = os.listdir(self.path)
        if names and _MARKER not in names:
            raise NotOurs(f"{self.path} is not empty, and no demo made it: choose another directory")
        for name in names:
            entry = os.path.join(self.path, name)
            # A link is removed, not followed: its target is the user's.
            if os.path.isdir(entry) and not os.path.islink(entry):
                shutil.rmtree(entry)
            else:
                os.unlink(entry)
        with open(os.path.join(self.path, _MARKER), "w", encoding="utf-8") as file:
            file.write(_NOTE)
