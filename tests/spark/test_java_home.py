"""Finding a Java: the machine's, or the packaged one behind a start script."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from barnabas_spark import java_home
from barnabas_spark.java_home import (
    JavaHome,
    JavaNotFound,
    java_home_at_once,
    set_spark_environment,
    spark_java_home,
)


def fake_java(home: str, version: str, *modules: str, release: str = "") -> str:
    """A program that lists modules as `java --list-modules` does, and else prints its arguments.

    release: the content of the installation's file of that name, which describes it; empty: it has none.
    """
    if release:
        os.makedirs(home)
        with open(os.path.join(home, "release"), "w", encoding="utf-8") as file:
            file.write(release)
    path = os.path.join(home, "bin", "java")
    os.makedirs(os.path.dirname(path))
    lines = "\n".join(f"{module}@{version}" for module in ("java.base", *modules))
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            f'#!/bin/sh\nif [ "$1" = --list-modules ]; then cat <<EOF\n{lines}\nEOF\nelse printf "%s|" "$@"; fi\n'
        )
    os.chmod(path, 0o755)
    return home


@pytest.fixture
def directory(tmp_path: os.PathLike[str]) -> str:
    return os.fspath(tmp_path)


def packaged(monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    found = None if home is None else JavaHome(home, 21, has_vector_module=False)
    monkeypatch.setattr(java_home, "_packaged", lambda: found)


def test_a_suitable_java_is_used_as_it_is(directory: str) -> None:
    home = fake_java(f"{directory}/jdk", "17.0.15", "jdk.incubator.vector")
    assert spark_java_home({"JAVA_HOME": home, "PATH": ""}, directory) == home
    assert spark_java_home({"PATH": f"{home}/bin"}, directory) == home


def test_an_unsuitable_java_gives_way_to_the_packaged_one(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(f"{directory}/old", "11.0.2", "jdk.incubator.vector")
    packaged(monkeypatch, fake_java(f"{directory}/packaged jre", "21.0.8"))
    environment = {"JAVA_HOME": old, "PATH": f"{directory}/nothing"}
    home = set_spark_environment(environment, f"{directory}/cache")
    assert environment["JAVA_HOME"] == home
    assert environment["PYSPARK_PYTHON"] == sys.executable
    command = [f"{home}/bin/java", "-x", "--add-modules=jdk.incubator.vector", "two words", "--add-modules=other", ""]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "-x|two words|--add-modules=other||"
    inode = os.stat(f"{home}/bin/java").st_ino
    assert spark_java_home(environment, f"{directory}/cache") == home
    assert os.stat(f"{home}/bin/java").st_ino == inode  # written once


def test_a_start_script_that_was_damaged_is_written_again(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged(monkeypatch, fake_java(f"{directory}/packaged", "21.0.8"))
    home = spark_java_home({"PATH": ""}, directory)
    with open(f"{home}/bin/java", "w", encoding="utf-8") as file:
        file.write("half")
    assert spark_java_home({"PATH": ""}, directory) == home
    assert stat.S_IMODE(os.stat(f"{home}/bin/java").st_mode) == 0o755
    subprocess.run([f"{home}/bin/java"], check=True, capture_output=True)


def test_without_any_java_the_answer_says_what_to_do(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged(monkeypatch, None)
    with pytest.raises(JavaNotFound, match=r"Java 17 or 21.*pip install barnabas\[spark\]"):
        spark_java_home({"PATH": "", "JAVA_HOME": f"{directory}/nowhere"}, directory)


@pytest.mark.parametrize(
    ("release", "is_replaced"),
    [
        ('JAVA_VERSION="17.0.15"\nMODULES="java.base jdk.incubator.vector"\n', False),
        ('JAVA_VERSION="21.0.8"\nMODULES="java.base"\n', True),  # behind a script that drops the module
        ('JAVA_VERSION="11.0.2"\nMODULES="java.base jdk.incubator.vector"\n', True),
        ('JAVA_VERSION="25"\nMODULES="java.base jdk.incubator.vector"\n', True),
        ("", False),  # jenv's or SDKMAN's script, of which only a start would tell the version
    ],
)
def test_without_starting_java_its_release_decides(
    directory: str, monkeypatch: pytest.MonkeyPatch, release: str, is_replaced: bool
) -> None:
    packaged(monkeypatch, fake_java(f"{directory}/packaged", "21.0.8"))
    home = fake_java(f"{directory}/jdk", "17.0.15", release=release)
    # Were it started, it would fail.
    with open(f"{home}/bin/java", "w", encoding="utf-8") as file:
        file.write("#!/bin/false\n")
    found = java_home_at_once({"PATH": f"{home}/bin"}, f"{directory}/cache")
    assert (found is not None) == is_replaced
    if found is not None:
        assert found.startswith(f"{directory}/cache/java-21")


def test_without_java_on_the_path_the_packaged_one_is_named_at_once(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged(monkeypatch, fake_java(f"{directory}/packaged", "21.0.8"))
    assert java_home_at_once({"PATH": directory}, f"{directory}/cache") == f"{directory}/cache/java-21"
    packaged(monkeypatch, None)
    with pytest.raises(JavaNotFound):
        java_home_at_once({"PATH": directory}, f"{directory}/cache")
