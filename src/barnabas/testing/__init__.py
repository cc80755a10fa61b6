"""The test kit: a real broker for other people's tests, as a context manager and as a pytest fixture.

Users import from here: `from barnabas.testing import broker`. Loaded lazily, because pytest imports this package at
every start where Barnabas is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.testing.broker_process import BrokerFailed, BrokerProcess, broker

__all__ = ["BrokerFailed", "BrokerProcess", "broker"]


def __getattr__(name: str) -> object:
    # A test run that never starts a broker does not pay for these imports.
    if name in __all__:
        from barnabas.testing import broker_process  # noqa: PLC0415 see the module docstring

        return getattr(broker_process, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
