"""CRC-32C (Castagnoli), the checksum of batch format v2, over any buffer. Pure; called from every thread.

Kafka: Crc32C. The `crc32c` package takes memoryview slices without a copy and releases the GIL from 32 KiB.
"""

from __future__ import annotations

from crc32c import crc32c

__all__ = ["crc32c"]
