"""The test kit: a real broker for other people's tests, as a context manager and as a pytest fixture.

Users import from here: `from barnabas.testing import broker`. Loaded lazily, because pytest imports this package at
every start where Barnabas is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.faults.fault_plan import BlackHole, Chance, Delay, Drop, Error, Every, First, Kill, Nth
    from barnabas.testing.broker_cluster import Cluster, cluster
    from barnabas.testing.broker_process import BrokerFailed, BrokerProcess, broker
    from barnabas.testing.faults import Fault, Faults

__all__ = [
    "BlackHole",
    "BrokerFailed",
    "BrokerProcess",
    "Chance",
    "Cluster",
    "Delay",
    "Drop",
    "Error",
    "Every",
    "Fault",
    "Faults",
    "First",
    "Kill",
    "Nth",
    "broker",
    "cluster",
]

_MODULES = {
    "barnabas.faults.fault_plan": ("BlackHole", "Chance", "Delay", "Drop", "Error", "Every", "First", "Kill", "Nth"),
    "barnabas.testing.broker_process": ("BrokerFailed", "BrokerProcess", "broker"),
    "barnabas.testing.broker_cluster": ("Cluster", "cluster"),
    "barnabas.testing.faults": ("Fault", "Faults"),
}


def __getattr__(name: str) -> object:
    # A test run that never starts a broker does not pay for these imports.
    for module, names in _MODULES.items():
        if name in names:
            from importlib import import_module  # noqa: PLC0415 see the module docstring

            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
