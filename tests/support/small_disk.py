"""A small disk of its own (tmpfs), which can fill up and become read-only: for tests of what a broker does then.

Mounting needs root; a test that asks for one is skipped without (under CI it fails).
"""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

_PIECE_BYTES = 1 << 20


class SmallDisk:
    """A mounted tmpfs of `mebibytes` at `path`."""

    def __init__(self, path: Path, mebibytes: int) -> None:
        path.mkdir(parents=True)
        self.path = path
        self._ballast = path / "ballast"
        problem = _mount(path, mebibytes)
        if problem is not None:
            if os.environ.get("CI", "").lower() == "true":
                pytest.fail(problem)
            pytest.skip(problem)

    def take_room(self, but_bytes: int = 0) -> None:
        """Fill the disk, leaving about so many bytes."""
        # Without a buffer, which would be written once more when the file is closed.
        with open(self._ballast, "wb", buffering=0) as ballast:
            while (room := self._room_bytes() - but_bytes) > 0:
                try:
                    ballast.write(bytes(min(room, _PIECE_BYTES)))
                except OSError as error:  # a broker may write at the same time
                    if error.errno != errno.ENOSPC:
                        raise
                    break

    def _room_bytes(self) -> int:
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize

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


def mount_problem() -> str | None:
    """Return why no small disk can be mounted here, or None: it can."""
    with tempfile.TemporaryDirectory(prefix="barnabas-mount-") as directory:
        problem = _mount(Path(directory), 1)
        if problem is None:
            subprocess.run(["umount", "--lazy", directory], check=True)
    return problem


def _mount(path: Path, mebibytes: int) -> str | None:
    """Mount a tmpfs. Return the reason why it cannot be mounted, or None."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "barnabas-test", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"no disk can be mounted here: {done.stderr.strip()}" if done.returncode else None
