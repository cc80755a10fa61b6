"""One Spark session for all tests of this directory, and nothing of it where Spark is not installed."""

from __future__ import annotations

import importlib.util
import os

if importlib.util.find_spec("pyspark") is None:
    if os.environ.get("CI"):
        raise RuntimeError("pyspark is not installed, and under CI no test is left out")
    collect_ignore_glob = ["test_*.py"]
