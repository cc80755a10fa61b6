"""A small disk of its own (tmpfs), which can fill up and become read-only: for tests of what a broker does then.

Mounting needs root; a test that asks for one is skipped without (under CI it fails).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted tmpfs of `mebibytes` at `path`."""

    def __init__(self, path: Path, mebibytes: int) -> None:
        path.mkdir(parents=True)
        self.path = path
        self._ballast = path / "ballast"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "barnabas-test", str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            reason = f"no disk can be mounted here: {done.stderr.strip()}"
            if os.environ.get("CI", "").lower() == "true":
                pytest.fail(reason)
            pytest.skip(reason)

    def take_room(self, but_bytes: int = 0) -> None:
        """Fill the disk, leaving about so many bytes."""
        status = os.statvfs(self.path)
        self._ballast.write_bytes(bytes(max(0, status.f_bavail * status.f_frsize - but_bytes)))

    def make_room(self) -> None:
        """Give back what `take_room` took."""
        self._ballast.unlink()

    def set_read_only(self, read_only: bool) -> None:
        """Remount it."""
        word = "ro" if read_only else "rw"
        subprocess.run(["mount", "-o", f"remount,{word}", str(self.path)], check=True)

    def unmount(self) -> None:
        """Throw it away."""
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)
