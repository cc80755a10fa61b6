"""Builds wheels whose hot modules are compiled by mypyc, where that can be done, and plain ones elsewhere.

Build tools load it twice: as the build backend of pyproject.toml, which is hatchling's with another list of what a
wheel's build needs, and as hatchling's hooks. Sdists and editable installs are always plain.

`BARNABAS_COMPILE=0` makes a plain wheel, `BARNABAS_COMPILE=1` a compiled one or an error; without the variable the
build tries. It writes what it built to `barnabas/build.txt`, which `barnabas --version` reads. The list of modules is
in pyproject.toml; the reasons are in docs/decisions/0009-compiled-build.md.
"""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilder
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.requirements import Requirement

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

SWITCH = "BARNABAS_COMPILE"
PLACE = "BARNABAS_COMPILE_DIRECTORY"
"""A directory that keeps what was compiled, so that the next build compiles what has changed."""
MYPY = "mypy>=2.4,<2.5"
"""A mypy of another minor version compiles differently: a new one is tried by running the tests on its wheel."""
REQUIREMENTS = [MYPY, "setuptools<81"]
RUN_TIME = ["librt>=0.16,<1"]
"""What compiled modules import besides the other dependencies: mypyc's library.

A module refuses a librt that has fewer functions than mypy's headers: 0.16 is what this mypy itself asks for. A later
librt has them all, by its promise, until its ABI changes.
"""
TRIED_VERSIONS = {(3, 11), (3, 12), (3, 13)}
TRIED_PLATFORMS = {"linux-x86_64", "linux-aarch64"}
"""Where a build tries to compile unasked: elsewhere mypy and its dependencies may have to be compiled first."""
MOST_COMPILERS = 4
"""The number of C compilers at a time, each of which takes some 160 MB of memory."""
RECORD = "barnabas/build.txt"
MYPY_SETTINGS = """\
[mypy]
strict = true
mypy_path = src
explicit_package_bases = true
follow_imports = silent
ignore_missing_imports = true
"""

# -- what is built


class Host(NamedTuple):
    """What decides whether a wheel is compiled. compiler: the path of the C compiler, or None.

    missing_header: the path at which Python's headers should be, or None where they are.
    """

    switch: str
    implementation: str
    version: tuple[int, int]
    free_threaded: bool
    platform: str
    compiler: str | None
    missing_header: str | None


def this_host() -> Host:
    """Return the facts about this environment, interpreter and machine."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    header = Path(sysconfig.get_path("include"), "Python.h")
    return Host(
        switch=os.environ.get(SWITCH, ""),
        implementation=sys.implementation.name,
        version=sys.version_info[:2],
        free_threaded=bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        platform=sysconfig.get_platform(),
        compiler=shutil.which(compiler),
        missing_header=None if header.exists() else str(header),
    )


def why_plain(host: Host) -> str | None:
    """Return why a wheel is not compiled, or None where it is. Raises ValueError for another value of the switch."""
    if host.switch not in {"", "0", "1"}:
        raise ValueError(f"{SWITCH} is 0, 1 or not set, and not {host.switch!r}")
    if host.switch == "0":
        return f"{SWITCH} was 0"
    if host.implementation != "cpython":
        return f"mypyc does not compile for {host.implementation}"
    if host.free_threaded:
        return "the compiled build is not offered for free-threaded Python"
    if not host.switch and (host.version not in TRIED_VERSIONS or host.platform not in TRIED_PLATFORMS):
        version = "{}.{}".format(*host.version)
        return f"for Python {version} on {host.platform} it is compiled only with {SWITCH}=1"
    if host.compiler is None:
        return "no C compiler was found"
    if host.missing_header is not None:
        return f"Python's headers were not found ({host.missing_header})"
    return None


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:  # noqa: ARG001 - the backend's interface
    """Return what an isolated build installs besides hatchling: nothing for a plain wheel.

    The run-time dependencies are among it: the compiler reads the types of what the modules import, and under strict
    rules a call whose type is unknown is an error.

    hatchling's function, and its hook `dependencies`, would install as much for an editable install. Its
    `prepare_metadata_for_build_wheel` is left out of this backend: what a wheel depends on is known once it is built.
    """
    if why_plain(this_host()) is not None:
        return []
    return [*REQUIREMENTS, *WheelBuilder(str(Path.cwd())).metadata.core.dependencies]


class CustomMetadataHook(MetadataHookInterface):
    """Names the dependencies of every build: standards let a build add to them only if they are not in `[project]`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the dependencies to the table `project`."""
        metadata["dependencies"] = self.config["dependencies"]


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles modules for a wheel, and records what the wheel is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into a temporary directory, or one that is kept, and add the extension modules to the wheel.

        A wheel has all of them or none. Raises RuntimeError, or the compiler's error, if only a compiled one will do.
        """
        if version != "standard":
            return
        self._temporary = tempfile.TemporaryDirectory(prefix="barnabas-build-")
        kept = os.environ.get(PLACE)
        place = Path(self.root, kept) if kept else Path(self._temporary.name)
        demanded = os.environ.get(SWITCH) == "1"
        started, compiled = time.monotonic(), list[Path]()
        reason = why_plain(this_host()) or why_mypy_does_not_serve()
        if reason is None:
            try:
                compiled = compile_modules(Path(self.root), place, self.config["modules"])
            except (Exception, SystemExit) as error:  # mypyc ends the process; a plain wheel is better than none
                if demanded:
                    raise
                reason = f"compiling failed ({str(error).partition(chr(10))[0]})"
        elif demanded:
            raise RuntimeError(f"{SWITCH}=1: {reason}")
        if reason is None:
            text = f"compiled by mypyc {version_of_mypy()} for Python {{}}.{{}}".format(*sys.version_info)
            self._say(f"{text} in {time.monotonic() - started:.0f} seconds")
            files = [path.relative_to(place / "lib") for path in compiled]
            build_data["force_include"] |= {str(place / "lib" / file): str(file) for file in files}
            build_data["dependencies"] += RUN_TIME
            build_data |= {"pure_python": False, "infer_tag": True}
            self._record(build_data, text, *(str(file.parent / file.name.partition(".")[0]) for file in files))
        else:
            text = f"plain Python: {reason} when it was built"
            self._say(text)
            self._record(build_data, text)

    def _record(self, build_data: dict[str, Any], *lines: str) -> None:
        """Add the file that `barnabas.build` reads: what was built, and the paths of what was compiled."""
        record = Path(self._temporary.name, "build.txt")
        record.write_text("\n".join(lines))
        build_data["force_include"][str(record)] = RECORD

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary directory."""
        if version == "standard":
            self._temporary.cleanup()

    def _say(self, line: str) -> None:
        """Show a line to the user. pip shows what builds print only with -v, so the line also goes to the terminal."""
        self.app.display_warning(f"barnabas: {line}")
        if sys.stderr.isatty():
            return
        try:
            with Path("/dev/tty").open("w") as terminal:
                terminal.write(f"\nbarnabas: {line}\n")
        except OSError:
            return  # no terminal: what is built is in the wheel's name, and in `barnabas --version`


def why_mypy_does_not_serve() -> str | None:
    """Return None where the mypy to compile with is installed. It need not be in builds without isolation."""
    try:
        version = version_of_mypy()
    except importlib.metadata.PackageNotFoundError:
        return "mypy was not installed"
    return None if Requirement(MYPY).specifier.contains(version) else f"mypy {version} was installed instead of {MYPY}"


def version_of_mypy() -> str:
    return importlib.metadata.version("mypy")


# -- compiling


def compile_modules(root: Path, place: Path, modules: list[str], *, trace: bool = False) -> list[Path]:
    """Compile modules of a copy of `root`/src in `place`; return the extension modules, which lie in `place`/lib.

    modules: their names; trace: the code logs its operations (benchmarks/operations.py).
    """
    from mypyc.build import mypycify  # noqa: PLC0415 - not installed where nothing is compiled
    from setuptools import Distribution  # noqa: PLC0415
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415

    class BuildSideBySide(build_ext):  # type: ignore[misc]
        """Runs several C compilers: an extension's files are otherwise compiled one after another."""

        def build_extensions(self) -> None:
            self.compiler.compile = partial(compile_side_by_side, self.compiler)
            super().build_extensions()

    shutil.rmtree(place / "lib", ignore_errors=True)
    arguments = lay_out(root, place, modules)
    before = Path.cwd()
    os.chdir(place)  # mypy names modules by their paths from here
    try:
        # One C file a module, so that several compilers can work, lightly optimized: most of the time of compiled code
        # passes in Python's runtime. One file with -O3 took six times as long and ran no faster (decisions/0009).
        extensions = mypycify(
            arguments,
            opt_level="1",
            debug_level="0",
            group_name="barnabas",
            multi_file=True,
            log_trace=trace,
        )
        command = BuildSideBySide(Distribution({"name": "barnabas", "ext_modules": extensions}))
        command.build_lib = str(place / "lib")
        command.build_temp = str(place / "temp")
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    return sorted((place / "lib").rglob("*.so"))


def lay_out(root: Path, place: Path, modules: list[str]) -> list[str]:
    """Write what the compiler reads into `place`; return mypyc's arguments, whose paths begin there."""
    shutil.rmtree(place / "src", ignore_errors=True)
    shutil.copytree(root / "src" / "barnabas", place / "src" / "barnabas", ignore=shutil.ignore_patterns("__pycache__"))
    modules = modules + write_native_sources(root / "native", place / "src")
    (place / "mypy.ini").write_text(MYPY_SETTINGS)
    return ["--config-file=mypy.ini", *(f"src/{name.replace('.', '/')}.py" for name in modules)]


def write_native_sources(native: Path, sources: Path) -> list[str]:
    """Lay over `sources` what is written otherwise for the compiler; plain Python never sees it (decisions/0009).

    Returns the modules that only the compiled build has.
    """
    subprocess.run(  # noqa: S603 - a program of this repository
        [sys.executable, str(native / "write_messages.py"), str(sources)],
        check=True,
        # An isolated build finds its packages by this variable.
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(sources), os.environ.get("PYTHONPATH")])),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    added = []
    for text in (native / "barnabas").rglob("*.py"):
        place = sources / text.relative_to(native)
        if not place.exists():
            added.append(".".join(text.relative_to(native).with_suffix("").parts))
        shutil.copyfile(text, place)
    return sorted(added)


def compile_side_by_side(
    compiler: Any,
    sources: list[str],
    output_dir: str | None = None,
    macros: list[Any] | None = None,
    include_dirs: list[str] | None = None,
    debug: bool = False,
    extra_preargs: list[str] | None = None,
    extra_postargs: list[str] | None = None,
    depends: list[str] | None = None,
) -> list[str]:
    """Do what `distutils.ccompiler.CCompiler.compile` does, with several compilers at a time.

    A file compiled before is left alone while its text and the headers are older: mypyc writes what has changed.
    """
    objects: list[str]
    macros, objects, extra_postargs, preprocessor, build = compiler._setup_compile(  # noqa: SLF001 - the steps of the method that this replaces
        output_dir, macros, include_dirs, sources, depends, extra_postargs
    )
    arguments = compiler._get_cc_args(preprocessor, debug, extra_preargs)  # noqa: SLF001

    headers = [file.stat().st_mtime for file in Path.cwd().glob("build/**/*.h")]

    def compile_one(name: str) -> None:
        source, extension = build[name]
        made = Path(name)
        if made.exists() and made.stat().st_mtime > max(Path(source).stat().st_mtime, *headers):
            return
        compiler._compile(name, source, extension, arguments, extra_postargs, preprocessor)  # noqa: SLF001

    with ThreadPoolExecutor(min(os.cpu_count() or 1, MOST_COMPILERS)) as pool:
        # The list raises the first error.
        list(pool.map(compile_one, objects))
    return objects
