"""The layers of docs/architecture.md, held by import-linter: the contracts are in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

from tests.architecture.source_tree import ROOT


def test_imports_only_point_down() -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([lint_imports], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
