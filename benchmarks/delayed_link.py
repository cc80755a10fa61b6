"""Two hosts on this machine with a slow link between them: namespaces joined by TUN devices that hold packets back.

Used by `long_path`; needs root, `ip` and /dev/net/tun. A thread a direction reads packets from one device and writes
them into the other `delay_ms` later, in order. TCP on both ends is the kernel's, so windows, buffers and congestion
control are real; only the line's bandwidth is that of this program (hundreds of MB/s: packets are 60 KB).
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import threading
import time
from collections import deque
from types import TracebackType
from typing import Self

TUN_DEVICE = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
MTU = 60_000


class LinkUnavailable(Exception):
    """This machine cannot make such a link; the message says what is missing."""


class DelayedLink:
    """`with DelayedLink(10) as link`: packets between the hosts `link.near` and `link.far` take 10 ms each way."""

    near, near_address = "barnabas-near", "192.0.2.1"
    far, far_address = "barnabas-far", "192.0.2.2"

    def __init__(self, delay_ms: float) -> None:
        self.delay_ms = delay_ms
        self._devices: list[int] = []

    def __enter__(self) -> Self:
        """Make the hosts. Raises LinkUnavailable where that needs rights or devices that are not there."""
        if os.geteuid() or not os.path.exists(TUN_DEVICE):
            raise LinkUnavailable(f"a delayed link needs root and {TUN_DEVICE}")
        for host in (self.near, self.far):
            subprocess.run(["ip", "netns", "delete", host], check=False, capture_output=True)
        near = self._make_host(self.near, "tun-near", self.near_address)
        far = self._make_host(self.far, "tun-far", self.far_address)
        for source, target in ((near, far), (far, near)):
            held: deque[tuple[float, bytes]] = deque()
            arrived = threading.Semaphore(0)
            threading.Thread(target=self._receive, args=(source, held, arrived), daemon=True).start()
            threading.Thread(target=self._deliver, args=(target, held, arrived), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the hosts away; the threads end with the program, which ends soon."""
        for host in (self.near, self.far):
            subprocess.run(["ip", "netns", "delete", host], check=True)

    @staticmethod
    def on(host: str) -> tuple[str, ...]:
        """What precedes a command line so that the command runs on `host`."""
        return ("ip", "netns", "exec", host)

    def _make_host(self, host: str, device: str, address: str) -> int:
        """A namespace with one TUN device, and the descriptor of that device."""
        descriptor = os.open(TUN_DEVICE, os.O_RDWR)
        self._devices.append(descriptor)
        fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
        inside = ["ip", "-n", host]
        for command in (
            ["ip", "netns", "add", host],
            ["ip", "link", "set", device, "netns", host],
            [*inside, "link", "set", "lo", "up"],
            [*inside, "link", "set", device, "mtu", str(MTU), "up"],
            [*inside, "link", "set", device, "txqueuelen", "10000"],
            [*inside, "address", "add", f"{address}/30", "dev", device],
        ):
            subprocess.run(command, check=True)
        return descriptor

    def _receive(self, source: int, held: deque[tuple[float, bytes]], arrived: threading.Semaphore) -> None:
        delay = self.delay_ms / 1000
        while True:
            try:
                packet = os.read(source, MTU + 100)
            except OSError:  # the host was taken away
                return
            held.append((time.monotonic() + delay, packet))
            arrived.release()

    def _deliver(self, target: int, held: deque[tuple[float, bytes]], arrived: threading.Semaphore) -> None:
        while True:
            arrived.acquire()
            due, packet = held.popleft()
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            try:
                os.write(target, packet)
            except OSError:  # the host was taken away
                return
