"""The machine's files: positioned writes, the truncation after a failed one, atomic replacement."""

import errno
import os
from pathlib import Path

import pytest

from barnabas.runtime import files
from barnabas.runtime.files import MAX_BUFFERS_PER_WRITE, OperatingSystemFiles

FILES = OperatingSystemFiles()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "log")


def test_writes_many_buffers_at_a_position(path: str) -> None:
    file = FILES.open(path, create=True)
    assert file.write((b"head",), 0) == 4
    count = MAX_BUFFERS_PER_WRITE + 5
    assert file.write((b"", bytearray(b"ab"), *[memoryview(b"c")] * count), 4) == count + 2
    assert file.size() == count + 6
    assert file.read(2, 4) == b"adab"
    assert file.read(4, 10_000) == b"ab" + b"c" * count
    assert file.read(10_000, 1) == b""
    file.close()
    file.close()


@pytest.mark.interpreted
def test_a_short_write_is_completed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FILES.open(path, create=True)
    real = os.pwritev
    monkeypatch.setattr(files, "_pwritev", lambda fd, buffers, at: real(fd, [bytes(buffers[0])[:1]], at))
    assert file.write((b"abc", b"def"), 0) == 6
    assert file.read(0, 10) == b"abcdef"
    file.close()


def test_reads_fill_a_buffer_up_to_the_end(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FILES.write_atomically(path, b"0123456789")
    file = FILES.open(path)
    real = os.preadv
    # The system may give less than asked for, as after a signal.
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, at: real(fd, [buffers[0][:2]], at))
    buffer = bytearray(b"." * 8)
    assert file.read_into(memoryview(buffer)[1:6], 3) == 5
    assert buffer == b".34567.."
    assert file.read_into(memoryview(buffer), 7) == 3
    assert buffer == b"789567.."
    file.close()


@pytest.mark.interpreted
def test_a_full_disk_truncates_back(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FILES.open(path, create=True)
    file.write((b"whole",), 0)
    real = os.pwritev
    monkeypatch.setattr(files, "_pwritev", lambda fd, buffers, at: real(fd, [bytes(buffers[0])[:2]], at))

    def full(fd: int, data: memoryview, at: int) -> int:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="disk full"):
        file.write((b"torn",), 5)
    assert file.size() == 5
    file.close()


def test_open_needs_create(path: str) -> None:
    with pytest.raises(FileNotFoundError):
        FILES.open(path)
    FILES.open(path, create=True).close()
    FILES.write_atomically(path, b"kept")
    FILES.open(path, create=True).close()
    assert FILES.read_bytes(path) == b"kept"
    FILES.open(path, truncate=True).close()
    assert FILES.read_bytes(path) == b""


def test_write_atomically_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    FILES.write_atomically(path, b"one")
    FILES.write_atomically(path, b"two")
    assert FILES.list_dir(str(tmp_path)) == ["checkpoint"]
    assert FILES.read_bytes(path) == b"two"


def test_directories(tmp_path: Path) -> None:
    directory = str(tmp_path / "a" / "b")
    FILES.make_dirs(directory)
    FILES.make_dirs(directory)
    assert FILES.is_dir(directory)
    FILES.sync_dir(directory)
    FILES.write_atomically(directory + "/x", b"")
    FILES.rename(directory + "/x", directory + "/y")
    assert FILES.exists(directory + "/y")
    FILES.unlink(directory + "/y")
    assert not FILES.exists(directory + "/y")
    FILES.remove_tree(str(tmp_path / "a"))
    FILES.remove_tree(str(tmp_path / "a"))
    assert FILES.free_bytes(str(tmp_path)) > 0


def test_read_only_files_cannot_be_written(path: str) -> None:
    FILES.write_atomically(path, b"kept")
    file = OperatingSystemFiles(read_only=True).open(path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write((b"lost",), 0)
    assert file.read(0, 10) == b"kept"
    file.close()


def test_what_was_just_written_is_cached_and_what_cannot_be_told_counts_as_cached(path: str) -> None:
    file = FILES.open(path, create=True)
    file.write((bytes(10_000),), 0)
    assert file.is_cached(9_999)
    file.close()
    assert file.is_cached(9_999)
