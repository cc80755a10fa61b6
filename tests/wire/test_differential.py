"""Our codec against other people's: what we write they read, and write again byte for byte.

kio and kafka-python in every run; kio 0.6.2 and Apache Kafka's own classes (3.9 and 4, by Java) in `make test-all`.
Together they know every version of every message we have.
"""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from barnabas.protocol.messages.message import Message
from tests.support.maven import CounterpartMissing, fetch_jars, find_java
from tests.wire import kafka_python_oracle, kio_oracle
from tests.wire.line_oracle import LineOracle, kind_of
from tests.wire.random_messages import RandomMessages, all_versions, encoded

_ROUNDS = 4
_SLOW_ROUNDS = 100
_INTER_BROKER_OF_3_9 = {(4, 7), (5, 4), (6, 8), (7, 3)}
_FLOORS_OF_3_9 = {(0, 0), (1, 0), (2, 0), (3, 0)}
_HERE = Path(__file__).parent
Oracle = Callable[[type[Message], int, bytes], bytes | None]


def _compare(oracle: Oracle, rounds: int, *, seed: int) -> int:
    """Compare on random messages of every class and version; returns how many versions the oracle knew."""
    random_messages = RandomMessages(seed)
    known = 0
    for message, version in all_versions():
        for number in range(rounds):
            ours = random_messages.make(message, version)
            body = encoded(ours, version)
            assert message.decode(body, version) == (ours, len(body))
            theirs = oracle(message, version, body)
            if theirs is None:
                break
            known += number == 0
            # A tagged field that holds its default may be written or not: then the meaning decides.
            if theirs != body:
                assert message.decode(theirs, version) == (ours, len(theirs)), f"{message.__name__} v{version}"
                assert len(theirs) < len(body), f"{message.__name__} v{version}: {theirs.hex()} != {body.hex()}"
    return known


def _skip_or_fail(reason: str) -> NoReturn:
    """A test that lacks a tool is skipped on a developer's machine, and fails in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _kio(message: type[Message], version: int, body: bytes) -> bytes | None:
    return kio_oracle.encode_again(message.api_key, version, kind_of(message), body)


def _kafka_python(message: type[Message], version: int, body: bytes) -> bytes | None:
    return kafka_python_oracle.encode_again(message.__name__, version, body)


def test_kio_reads_and_writes_what_we_do() -> None:
    assert _compare(_kio, _ROUNDS, seed=1) > 450


def test_kafka_python_reads_and_writes_what_we_do() -> None:
    assert _compare(_kafka_python, _ROUNDS, seed=2) > 350


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_oracles_on_many_messages() -> None:
    _compare(_kio, _SLOW_ROUNDS, seed=3)
    _compare(_kafka_python, _SLOW_ROUNDS, seed=4)


@pytest.fixture
def python_with_old_kio(pytestconfig: pytest.Config) -> str:
    """The interpreter of an environment with kio 0.6.2, made once and kept in pytest's cache directory."""
    assert pytestconfig.cache is not None
    home = Path(pytestconfig.cache.mkdir("kio-0.6.2"))
    python = home / "bin" / "python"
    if python.exists() and subprocess.run([python, "-c", "import kio.serial"], check=False).returncode == 0:
        return str(python)
    try:
        venv.create(home, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "kio==0.6.2"]
        subprocess.run(install, check=True, capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        _skip_or_fail(f"can't install kio 0.6.2 into an environment of its own: {error}")
    return str(python)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kio_of_kafka_3_9_reads_and_writes_what_we_do(python_with_old_kio: str) -> None:
    """The floors (Produce v0...), and the APIs between brokers that Kafka 4 dropped."""
    with LineOracle([python_with_old_kio, kio_oracle.__file__]) as oracle:
        _compare(oracle.encode_again, _ROUNDS, seed=5)
    assert oracle.known >= _FLOORS_OF_3_9 | _INTER_BROKER_OF_3_9


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(600)
def test_apache_kafka_reads_and_writes_what_we_do() -> None:
    """Kafka's own classes, of 3.9 and 4: between them they know every version, so none is left untested."""
    known: set[tuple[int, int]] = set()
    for release in ("3.9", "4"):
        try:
            java, jars = find_java(), fetch_jars(_HERE / f"kafka-clients-{release}.xml")
        except CounterpartMissing as error:
            _skip_or_fail(str(error))
        with LineOracle([java, "-cp", f"{jars}/*", str(_HERE / "KafkaOracle.java")]) as oracle:
            _compare(oracle.encode_again, _ROUNDS * 2, seed=6)
        known |= oracle.known
    assert known == {(int(message.api_key), version) for message, version in all_versions(requests_only=True)}
