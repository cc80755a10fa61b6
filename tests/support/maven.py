"""Fetches the jars of a counterpart with Maven, once, into a cache outside the repository.

Called by `apache_kafka` (tests and benchmarks) and by tests, which wrap their needs in `counterparts_needed`. Two
processes may fetch at once: each copies into its own directory and renames it into place, the loser drops its copy.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.requirements import need

CACHE_VARIABLE = "BARNABAS_COUNTERPARTS"


class CounterpartMissing(Exception):
    """This machine lacks what a counterpart needs; the message says what."""


@contextmanager
def counterparts_needed() -> Iterator[None]:
    """Inside, a counterpart that cannot be had skips the test, or fails it under CI."""
    try:
        yield
    except CounterpartMissing as missing:
        need(False, str(missing))
        raise


def counterparts_directory() -> Path:
    """Where fetched counterparts are kept: $BARNABAS_COUNTERPARTS, or a directory of the user's cache."""
    configured = os.environ.get(CACHE_VARIABLE)
    return Path(configured) if configured else Path.home() / ".cache" / "barnabas-counterparts"


def find_java() -> str:
    """The Java to run tools with: JAVA_HOME's, else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        raise CounterpartMissing("no java found (set JAVA_HOME, or install a JDK 17)")
    return java


def fetch_jars(pom: Path) -> Path:
    """The directory that holds every run-time dependency of `pom`; fetched when this content of it was not before."""
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    target = counterparts_directory() / f"{pom.stem}-{digest}"
    if target.is_dir():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise CounterpartMissing("no mvn found: Apache Kafka's jars come by Maven")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{pom.stem}-", dir=target.parent))
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={scratch}"]
    done = subprocess.run([maven, "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(scratch)
        raise CounterpartMissing(f"mvn could not fetch {pom.name}: {done.stdout[-500:]}{done.stderr[-500:]}")
    try:
        scratch.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(scratch)
    return target
