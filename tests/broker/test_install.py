"""`pip install .` in environments of their own, as users do: compiled, plain, and what is said of it.

They install from the package index, and one compiles for a minute: `make test-install`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas import __version__
from tests.support.requirements import need_program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
BUILT_FROM = ("src", "native", "hatch_build.py", "pyproject.toml", "README.md", "LICENSE")
ROUND_TRIP = """
from importlib.metadata import requires
from barnabas.clients.consumer import Consumer
from barnabas.clients.producer import Producer
from barnabas.testing import broker

with broker() as running:
    with Producer(running.bootstrap_servers) as producer:
        for number in range(100):
            producer.send("orders", b"%d" % number)
    with Consumer(running.bootstrap_servers, group_id="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        read = []
        while len(read) < 100:
            read += [int(record.value) for record in consumer.poll(1_000)]
    assert sorted(read) == list(range(100))
    print(running.log_text().splitlines()[0])
print(*(name for name in requires("barnabas") if "extra ==" not in name))
"""


class Case(NamedTuple):
    """How a package is installed, and what it then says of itself."""

    environment: dict[str, str]
    options: tuple[str, ...]
    build: str


ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in {"BARNABAS_COMPILE", "PYTHONPATH"}}
"""This run's: its PYTHONPATH would lead to other sources."""
COMPILED = "compiled by mypyc 2.4."
CASES = {
    "compiled": Case({}, (), COMPILED),
    "turned off": Case({"BARNABAS_COMPILE": "0"}, (), "plain Python: BARNABAS_COMPILE was 0 when it was built"),
    "no compiler": Case({"CC": "no-such-cc"}, (), "plain Python: no C compiler was found when it was built"),
    "a compiler that fails": Case({"CC": "false"}, (), "plain Python: compiling failed (command '"),
    "editable": Case({}, ("--editable",), "plain Python: run from its sources"),
}


def install(place: Path, case: Case) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Install a copy of the sources into a new environment. Return the environment's programs, and pip's outcome."""
    need_program("cc")
    (place / "sources").mkdir()
    for name in BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / "sources" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place / "sources" / name)
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    programs = place / "venv" / "bin"
    installed = subprocess.run(
        [programs / "python", "-m", "pip", "install", "--verbose", *case.options, place / "sources"],
        env=ENVIRONMENT | case.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return programs, installed


def run(*command: str | Path) -> str:
    """Return what a command prints."""
    ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("name", CASES)
def test_a_package_works_and_says_which_build_it_is(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    programs, installed = install(tmp_path, case)
    assert installed.returncode == 0, installed.stdout
    said = [line for line in installed.stdout.splitlines() if line.strip().startswith(f"barnabas: {case.build}")]
    assert len(said) == (name != "editable")
    version = run(programs / "barnabas", "--version")
    assert version.startswith(f"barnabas {__version__} ({case.build}")
    logged, dependencies = run(programs / "python", "-c", ROUND_TRIP).splitlines()
    assert version.strip() in logged
    assert ("librt" in dependencies) == case.build.startswith(COMPILED)
    assert bool(list(tmp_path.glob("venv/**/barnabas/**/*.so"))) == case.build.startswith(COMPILED)


def test_a_compiled_package_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    demanded = Case({"BARNABAS_COMPILE": "1", "CC": "no-such-cc"}, (), "")
    programs, installed = install(tmp_path, demanded)
    assert installed.returncode != 0
    assert "BARNABAS_COMPILE=1: no C compiler was found" in installed.stdout
    assert not (programs / "barnabas").exists()
