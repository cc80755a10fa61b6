"""The bytes that this process has read from and written to disks, as Linux counts them.

Called by gauges, on the thread that reads the metrics; no state, no lock. Kafka:
org.apache.kafka.server.metrics.LinuxIoMetricsCollector.
"""

from __future__ import annotations

from typing import Final

PATH: Final = "/proc/self/io"
COUNTERS: Final = {"read_bytes": "read-bytes", "write_bytes": "write-bytes"}


def linux_io_counters() -> dict[str, int]:
    """Return `read-bytes` and `write-bytes`, or nothing on other systems."""
    try:
        with open(PATH, encoding="ascii") as counters:
            lines = [line.partition(": ") for line in counters]
    except OSError:
        # Another system, or a container that hides the file.
        return {}
    return {COUNTERS[name]: int(value) for name, _, value in lines if name in COUNTERS}
