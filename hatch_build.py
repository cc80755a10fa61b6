"""Build hook: with BARNABAS_COMPILE=1 a wheel holds the hot modules compiled by mypyc, beside their sources.

Called by hatchling for every build; does nothing for sdists, editable installs and when the variable is not set. The
modules are those of `[tool.hatch.build.targets.wheel.hooks.custom]` in pyproject.toml; the reasons are in
docs/decisions/0009-compiled-build.md. Needs a C compiler and Python's headers.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH = "BARNABAS_COMPILE"
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
        """Compile into a temporary directory and add the extension modules to the wheel."""
        if version != "standard" or not self._is_wanted():
            return
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise RuntimeError(f"{SWITCH}: the compiled build is not offered for free-threaded Python")
        self._directory = tempfile.mkdtemp(prefix="barnabas-compile-")
        place = Path(self._directory)
        shutil.copytree(Path(self.root, "src", "barnabas"), place / "src" / "barnabas")
        for built in compile_modules(place, self.config["modules"]):
            build_data["force_include"][str(built)] = str(built.relative_to(place / "lib"))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary directory."""
        directory = getattr(self, "_directory", None)
        if directory is not None:
            shutil.rmtree(directory)


def compile_modules(place: Path, modules: list[str]) -> list[Path]:
    """Compile modules of `place`/src; returns the extension modules, which lie in `place`/lib as in site-packages."""
    from mypyc.build import mypycify  # noqa: PLC0415 - not installed where nothing is compiled
    from setuptools import Distribution  # noqa: PLC0415
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415

    settings = place / "mypy.ini"
    settings.write_text(MYPY_SETTINGS)
    before = Path.cwd()
    os.chdir(place)  # mypy names modules by their paths from here
    try:
        paths = [f"src/{name.replace('.', '/')}.py" for name in modules]
        extensions = mypycify(
            [f"--config-file={settings}", *paths], opt_level="3", debug_level="0", group_name="barnabas"
        )
        command = build_ext(Distribution({"name": "barnabas", "ext_modules": extensions}))
        command.build_lib = str(place / "lib")
        command.build_temp = str(place / "temp")
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    return sorted((place / "lib").rglob("*.so"))
