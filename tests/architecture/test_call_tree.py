"""The calls of a produce in docs/architecture.md are those that a running broker makes."""

import subprocess
import sys

from tests.architecture.source_tree import ROOT


def test_the_page_has_the_calls_of_a_running_broker() -> None:
    program = [sys.executable, "-m", "tests.architecture.call_tree", "--print"]
    made = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100)
    assert made.stdout == (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), "make docs"
