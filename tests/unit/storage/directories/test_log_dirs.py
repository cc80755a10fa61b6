"""Which of the log directories a broker starts with."""

from __future__ import annotations

import errno
import logging
import os

import pytest

from barnabas.storage.directories.log_dirs import LogDirectories
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import NoLock


def _locked_except(refused: str) -> type[NoLock]:
    class Locks(NoLock):
        def __init__(self, path: str) -> None:
            if path.startswith(refused):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), f"{path}/.lock")
            super().__init__(path)

    return Locks


def test_a_directory_that_cannot_be_used_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    directories = LogDirectories(["/bad", "/good"], SimulatedFiles(), lambda path: None, _locked_except("/bad"))
    directories.open()
    assert (directories.online_paths(), directories.offline_paths()) == (["/good"], ["/bad"])
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage() == "Failed to create or validate data directory /bad: Permission denied"
    assert record.exc_info is None


def test_without_any_directory_the_error_names_each_with_its_reason() -> None:
    directories = LogDirectories(["/bad-1", "/bad-2"], SimulatedFiles(), lambda path: None, _locked_except("/bad"))
    with pytest.raises(PermissionError) as caught:
        directories.open()
    assert caught.value.strerror == (
        "none of the log directories can be created or validated:"
        " /bad-1 (Permission denied), /bad-2 (Permission denied)"
    )
