"""The pytest plugin (entry point `pytest11`): the fixtures `barnabas_broker`, `barnabas_cluster` and those with faults.

Loaded by every pytest run where Barnabas is installed, so it imports the kit only when a fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.testing.broker_cluster import Cluster
    from barnabas.testing.broker_process import BrokerProcess


@pytest.fixture
def barnabas_broker() -> Iterator[BrokerProcess]:
    """A running broker with default settings, on an ephemeral port, with its own data dir. Stopped afterwards."""
    from barnabas.testing.broker_process import broker  # noqa: PLC0415 see the module docstring

    with broker() as running:
        yield running


@pytest.fixture
def barnabas_broker_with_faults() -> Iterator[BrokerProcess]:
    """The same, for tests that make the broker fail on purpose: `barnabas_broker_with_faults.faults.add(...)`."""
    from barnabas.testing.broker_process import broker  # noqa: PLC0415 see the module docstring

    with broker(faults=True) as running:
        yield running


@pytest.fixture
def barnabas_cluster() -> Iterator[Cluster]:
    """Three running brokers with one store, on ephemeral ports, with their own data dirs. Stopped afterwards.

    They take faults, so that `barnabas_cluster.partition({0}, {1, 2})` splits them.
    """
    from barnabas.testing.broker_cluster import cluster  # noqa: PLC0415 see the module docstring

    with cluster(3, faults=True) as running:
        yield running
