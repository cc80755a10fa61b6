"""The Poller for this machine: epoll where there is one, else the portable one.

Called once per Selector, by the thread that builds it.
"""

from __future__ import annotations

import select

from barnabas.transport.poller import Poller


def default_poller(*, portable: bool = False) -> Poller:
    """Make an EpollPoller on Linux; a SelectorsPoller elsewhere, or when `portable` asks for it (tests)."""
    if hasattr(select, "epoll") and not portable:
        from barnabas.transport.epoll_poller import EpollPoller  # noqa: PLC0415 - select.epoll exists on Linux only

        return EpollPoller()
    from barnabas.transport.selectors_poller import SelectorsPoller  # noqa: PLC0415 - not needed on Linux

    return SelectorsPoller()
