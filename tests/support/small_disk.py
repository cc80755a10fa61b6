"""A small disk of its own (tmpfs), which can fill up and become read-only: for tests of what a broker does then.

Mounting needs root; a test that asks for one is skipped without (under CI it fails).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

_PATIENCE_SECONDS = 10.0


class SmallDisk:
    """A mounted tmpfs of `mebibytes` at `path`, which takes memory for what is written only.

    is_filled: between `take_room` and `make_room`.
    """

    def __init__(self, path: Path, mebibytes: int) -> None:
        path.mkdir(parents=True)
        self.path = path
        self.is_filled = False
        self._bytes = mebibytes << 20
        problem = _mount(path, mebibytes)
        if problem is not None:
            if os.environ.get("CI", "").lower() == "true":
                pytest.fail(problem)
            pytest.skip(problem)

    def take_room(self, but_bytes: int = 0) -> None:
        """Shrink the disk to what is used, and about so many bytes. Raises RuntimeError: it cannot be shrunk."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            status = os.statvfs(self.path)
            used_bytes = (status.f_blocks - status.f_bfree) * status.f_frsize
            # A size of 0 would be no limit.
            problem = self._resize(min(max(used_bytes + but_bytes, status.f_frsize), self._bytes))
            if problem is None:
                self.is_filled = True
                return
            if time.monotonic() > deadline:  # a broker may write at the same time, but not always
                raise RuntimeError(f"{self.path} cannot be shrunk: {problem}")

    def make_room(self) -> None:
        """Give back what `take_room` took."""
        problem = self._resize(self._bytes)
        if problem is not None:
            raise RuntimeError(f"{self.path} cannot be grown: {problem}")
        self.is_filled = False

    def _resize(self, size_bytes: int) -> str | None:
        """Return why the disk cannot have this size, or None."""
        return _run_mount("-o", f"remount,size={size_bytes}", str(self.path))

    def set_read_only(self, read_only: bool) -> None:
        """Remount it. Raises RuntimeError: that is refused."""
        word = "ro" if read_only else "rw"
        problem = _run_mount("-o", f"remount,{word}", str(self.path))
        if problem is not None:
            raise RuntimeError(f"{self.path} cannot be made {word}: {problem}")

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
    problem = _run_mount("-t", "tmpfs", "-o", f"size={mebibytes}m", "barnabas-test", str(path))
    return None if problem is None else f"no disk can be mounted here: {problem}"


def _run_mount(*arguments: str) -> str | None:
    """Run `mount`. Return what it complains about, or None."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else None
