"""Build hook: with BARNABAS_COMPILE=1 a wheel holds the hot modules compiled by mypyc, beside their sources.

Called by hatchling for every build; does nothing for sdists, editable installs and when the variable is not set. The
modules are those of `[tool.hatch.build.targets.wheel.hooks.custom]` in pyproject.toml; the reasons are in
docs/decisions/0009-compiled-build.md. Needs a C compiler and Python's headers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH = "BARNABAS_COMPILE"
PLACE = "BARNABAS_COMPILE_DIRECTORY"
"""A directory that keeps what was compiled, so that the next build compiles what has changed."""
REQUIREMENTS = ["mypy>=2.4,<2.5", "setuptools<81"]
"""A mypy of another minor version compiles differently: a new one is tried by running the tests on its wheel."""
MYPY_SETTINGS = """\
[mypy]
strict = true
mypy_path = src
explicit_package_bases = true
follow_imports = silent
ignore_missing_imports = true
"""


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """See the module's docstring."""

    def _is_wanted(self) -> bool:
        return self.target_name == "wheel" and os.environ.get(SWITCH, "") not in {"", "0"}

    def dependencies(self) -> list[str]:
        """What an isolated build installs besides hatchling.

        The run-time dependencies are among it: the compiler reads the types of what the modules import, and under
        strict rules a call whose type is unknown is an error.
        """
        return [*REQUIREMENTS, *self.metadata.core.dependencies] if self._is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into a temporary directory, or one that is kept, and add the extension modules to the wheel."""
        if version != "standard" or not self._is_wanted():
            return
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise RuntimeError(f"{SWITCH}: the compiled build is not offered for free-threaded Python")
        kept = os.environ.get(PLACE)
        place = Path(self.root, kept) if kept else Path(tempfile.mkdtemp(prefix="barnabas-compile-"))
        self._temporary = None if kept else place
        for built in compile_modules(Path(self.root), place, self.config["modules"]):
            build_data["force_include"][str(built)] = str(built.relative_to(place / "lib"))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary directory."""
        directory = getattr(self, "_temporary", None)
        if directory is not None:
            shutil.rmtree(directory)


def compile_modules(root: Path, place: Path, modules: list[str], *, trace: bool = False) -> list[Path]:
    """Compile modules of a copy of `root`/src in `place`; return the extension modules, which lie in `place`/lib.

    modules: their names; trace: the code logs its operations (benchmarks/operations.py).
    """
    from mypyc.build import mypycify  # noqa: PLC0415 - not installed where nothing is compiled
    from setuptools import Distribution  # noqa: PLC0415
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415

    class BuildSideBySide(build_ext):  # type: ignore[misc]
        """Runs a C compiler for each processor: an extension's files are otherwise compiled one after another."""

        def build_extensions(self) -> None:
            self.compiler.compile = partial(compile_side_by_side, self.compiler)
            super().build_extensions()

    shutil.rmtree(place / "src", ignore_errors=True)
    shutil.rmtree(place / "lib", ignore_errors=True)
    shutil.copytree(root / "src" / "barnabas", place / "src" / "barnabas", ignore=shutil.ignore_patterns("__pycache__"))
    modules = modules + write_native_sources(root / "native", place / "src")
    settings = place / "mypy.ini"
    settings.write_text(MYPY_SETTINGS)
    before = Path.cwd()
    os.chdir(place)  # mypy names modules by their paths from here
    try:
        paths = [f"src/{name.replace('.', '/')}.py" for name in modules]
        # One C file a module, so that several compilers can work, lightly optimized: most of the time of compiled code
        # passes in Python's runtime. One file with -O3 took six times as long and ran no faster (decisions/0009).
        extensions = mypycify(
            [f"--config-file={settings}", *paths],
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


def write_native_sources(native: Path, sources: Path) -> list[str]:
    """Lay over `sources` what is written otherwise for the compiler; plain Python never sees it (decisions/0009).

    Returns the modules that only the compiled build has.
    """
    subprocess.run(  # noqa: S603 - a program of this repository
        [sys.executable, str(native / "write_messages.py"), str(sources)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"},
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
    """Do what `distutils.ccompiler.CCompiler.compile` does, with a thread for each processor.

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

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        # The list raises the first error.
        list(pool.map(compile_one, objects))
    return objects
