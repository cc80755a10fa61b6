"""Builds the programs that are not written in Python, once, into the cache of counterparts (tests/support/maven.py).

They are members of groups, transactional producers, and clients that log in. Called by member_libraries.py, by
tests/clients/test_transactional_clients.py and by tests/security/matrix. Each is built in a directory named after what
it is built from, and appears there whole: two processes may build at once, the loser drops its copy.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.support.maven import CounterpartMissing, counterparts_directory, fetch_jars, find_java

SOURCES = Path(__file__).with_name("members")
CLIENT_JARS = {
    release: Path(__file__).parent.parent / "wire" / f"kafka-clients-{release}.xml" for release in ("3.9", "4")
}
_SMALL_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
BUILD_SECONDS = 600


def find_program(name: str, *elsewhere: str) -> str:
    """The path of a build tool. Raises CounterpartMissing."""
    found = shutil.which(name) or next((path for path in elsewhere if Path(path).exists()), None)
    if found is None:
        raise CounterpartMissing(f"no {name} found")
    return found


def franz_go_member() -> list[str]:
    """The command that runs the member written in Go."""
    return [str(_franz_go() / "bin" / "member")]


def franz_go_transactional_writer() -> list[str]:
    """The command that runs the transactional producer written in Go."""
    return [str(_franz_go() / "bin" / "transactional_writer")]


def franz_go_offset_mover() -> list[str]:
    """The command that runs the committer of offsets written in Go."""
    return [str(_franz_go() / "bin" / "offset_mover")]


def franz_go_login_exam() -> list[str]:
    """The command that runs the client of the security matrix written in Go."""
    return [str(_franz_go() / "bin" / "login_exam")]


def kafkajs_member() -> list[str]:
    """The command that runs the member written in JavaScript."""
    return [find_program("node"), str(_kafkajs() / "member.js")]


def kafkajs_transactional_writer() -> list[str]:
    """The command that runs the transactional producer written in JavaScript."""
    return [find_program("node"), str(_kafkajs() / "transactional_writer.js")]


def kafkajs_offset_mover() -> list[str]:
    """The command that runs the committer of offsets written in JavaScript."""
    return [find_program("node"), str(_kafkajs() / "offset_mover.js")]


def kafkajs_login_exam() -> list[str]:
    """The command that runs the client of the security matrix written in JavaScript."""
    return [find_program("node"), str(_kafkajs() / "login_exam.js")]


def java_member() -> list[str]:
    """The command that runs the member written in Java, with the client of Kafka 4."""
    return _java("GroupMember", "4")


def java_login_exam(release: str) -> list[str]:
    """The command that runs the client of the security matrix written in Java. release: of the library, 3.9 or 4."""
    return _java("LoginExam", release)


@cache
def _franz_go() -> Path:
    go = find_program("go", "/usr/local/go/bin/go")
    return _built("franz_go", lambda place: _run([go, "build", "-o", "bin/", "./..."], place))


@cache
def _kafkajs() -> Path:
    npm = find_program("npm")
    return _built("kafkajs", lambda place: _run([npm, "ci", "--no-audit", "--no-fund"], place))


@cache
def _java(main_class: str, release: str) -> list[str]:
    java, javac = find_java(), find_program("javac", str(Path(find_java()).with_name("javac")))
    newest = fetch_jars(CLIENT_JARS["4"])
    built = _built(
        "java", lambda place: _run([javac, "-cp", f"{newest}/*", "GroupMember.java", "LoginExam.java"], place)
    )
    return [java, *_SMALL_JVM, "-cp", f"{built}:{fetch_jars(CLIENT_JARS[release])}/*", main_class]


def _built(name: str, build: Callable[[Path], None]) -> Path:
    source = SOURCES / name
    digest = hashlib.sha256()
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        digest.update(path.name.encode() + path.read_bytes())
    target = counterparts_directory() / f"group-member-{name}-{digest.hexdigest()[:12]}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=target.parent))
    try:
        shutil.copytree(source, scratch, dirs_exist_ok=True)
        build(scratch)
        with suppress(OSError):  # another process was first
            scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _run(command: list[str], place: Path) -> None:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    if done.returncode != 0:
        raise CounterpartMissing(f"{command[0]} failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")
