"""The faults of one broker: table, hook and control channel, put together.

Made by `barnabas serve` when the test kit has started it with the pipes, and handed to the BrokerServer. The main
thread calls all methods. Without the pipes there is no FaultLayer, and no module of this package is imported.
"""

from __future__ import annotations

import os
import signal

from barnabas.api.registry import Registry
from barnabas.faults.control_channel import ControlChannel, PipeEnds
from barnabas.faults.fault_table import FaultTable
from barnabas.faults.injector import FaultInjector, Surroundings


class FaultLayer:
    """The faults of one broker. ends: the pipes to the test kit (`control_channel.inherited_pipes`)."""

    def __init__(self, ends: PipeEnds) -> None:
        self._ends = ends
        self._table = FaultTable()
        self._injector: FaultInjector | None = None
        self._channel: ControlChannel | None = None

    def intercept(self, registry: Registry, surroundings: Surroundings) -> Registry:
        """Return a table of APIs with the hook in front of `registry`'s, and install the faults of the start.

        Raises ConfigError when those faults do not come or are rejected.
        """
        served = [handler.api_key for handler in registry]
        channel = self._channel = ControlChannel(self._ends, self._table, served, surroundings.own_client_id)
        channel.execute_first()
        self._injector = FaultInjector(registry, self._table, surroundings, self._kill)
        channel.start()
        return self._injector.intercepted()

    def stop(self) -> None:
        """End every fault: a broker that stops answers its last requests, and held connections are closed."""
        self._table.remove_all()
        if self._injector is not None:
            self._injector.stop()
        if self._channel is not None:
            self._channel.report_now()

    def _kill(self) -> None:
        assert self._channel is not None
        self._channel.report_now()
        # The signal reaches all threads before the call returns: no other instruction of this thread runs.
        os.kill(os.getpid(), signal.SIGKILL)
