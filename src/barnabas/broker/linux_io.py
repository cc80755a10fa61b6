"""How many bytes this process has had moved from and to disks, which Linux counts.

Asked by whoever reads the metrics, on any thread. Kafka: org.apache.kafka.server.metrics.LinuxIoMetricsCollector.
"""

from __future__ import annotations

from typing import Final

PATH: Final = "/proc/self/io"
COUNTERS: Final = {"read_bytes": "read-bytes", "write_bytes": "write-bytes"}


def linux_io_counters() -> dict[str, int]:
    """`read-bytes` and `write-bytes`; nothing where the system does not tell."""
    try:
        with open(PATH, encoding="ascii") as counters:
            lines = [line.partition(": ") for line in counters]
    except OSError:
        return {}
    return {COUNTERS[name]: int(value) for name, _, value in lines if name in COUNTERS}
