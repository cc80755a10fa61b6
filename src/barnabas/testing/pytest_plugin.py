"""The pytest plugin (entry point `pytest11`): the fixture `barnabas_broker`.

Loaded by every pytest run where Barnabas is installed, so it imports the kit only when the fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.testing.broker_process import BrokerProcess


@pytest.fixture
def barnabas_broker() -> Iterator[BrokerProcess]:
    """A running broker with default settings, on an ephemeral port, with its own data dir. Stopped afterwards."""
    from barnabas.testing.broker_process import broker  # noqa: PLC0415 see the module docstring

    with broker() as running:
        yield running
