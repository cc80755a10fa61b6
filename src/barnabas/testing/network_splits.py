"""Network splits between the brokers of a test's cluster: the links that are cut, by the faults of the brokers.

Made by Cluster, used on the test's thread; no lock. A link goes from one broker to another: while it is cut, the second
one closes the connection at each request of the first one (`faults.Drop`), before it is handled. The first broker is
known by the client ids that brokers put into their requests to each other, so that clients reach both as before.

Requests that are under way when a link is cut are still answered. Connections can be opened while it is cut: a broker
sees connections that end, not silence.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.faults.actions import Drop

if TYPE_CHECKING:
    from barnabas.testing.broker_process import BrokerProcess
    from barnabas.testing.faults import Fault

_FETCHERS_SETTING: Final = "num_replica_fetchers"


class NetworkSplits:
    """The links between brokers. brokers: by id, each with faults."""

    def __init__(self, brokers: Sequence[BrokerProcess]) -> None:
        self._brokers = brokers
        self._faults: list[Fault] = []

    def cut(self, source: int, target: int) -> None:
        """Have no request of one broker reach another, from the moment this returns.

        Raises BrokerFailed: the brokers take no faults. Raises ValueError: the link of a broker to itself.
        """
        if source == target:
            raise ValueError(f"broker {source} reaches itself over no link that could be cut")
        fetchers = int(str(self._brokers[source].settings.get(_FETCHERS_SETTING, 1)))
        for client_id in client_ids_of(source, fetchers):
            self._faults.append(self._brokers[target].faults.add(Drop(), client_id=client_id))

    def split(self, groups: Sequence[Collection[int]]) -> None:
        """Cut both links of any two brokers in different groups. Raises BrokerFailed, and ValueError: in two groups."""
        members = [broker_id for group in groups for broker_id in group]
        if len(set(members)) < len(members):
            raise ValueError(f"a broker is in two of the groups {[sorted(group) for group in groups]}")
        for group in groups:
            for target in group:
                for source in members:
                    if source not in group:
                        self.cut(source, target)

    def heal(self) -> None:
        """Let all requests through again."""
        for fault in self._faults:
            fault.remove()
        self._faults.clear()


def client_ids_of(broker_id: int, fetchers: int) -> list[str]:
    """Return the client ids in a broker's requests to others: those of its own id, and those of its fetchers."""
    return [str(broker_id), *(f"broker-{broker_id}-fetcher-{number}" for number in range(fetchers))]
