"""What a test does when the machine lacks something it needs: skip with the reason, or fail under CI."""

import os
import shutil

import pytest


def need(condition: object, reason: str) -> None:
    """Go on if `condition` holds; else skip the test, or fail it where everything should be there (CI=true)."""
    if condition:
        return
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"needed here and missing: {reason}", pytrace=False)
    pytest.skip(reason)


def need_program(name: str) -> str:
    """The path of a program that must be installed."""
    path = shutil.which(name)
    need(path, f"the program {name} is not installed")
    assert path is not None
    return path
