"""The cleaner's settings: a frozen snapshot, replaced as a whole. Made by `broker`. Kafka: CleanerConfig."""

from __future__ import annotations

from typing import Final

from barnabas.config.config_error import ConfigError
from barnabas.config.setting import Settings, setting

SKIMPY_BYTES_PER_ENTRY: Final = 24
"""A digest of 16 bytes and an offset of 8, as Kafka has it: the default buffer of 128 MB holds 5.6 million keys."""


class CleanerConfig(Settings):
    """Settings of the cleaner. Sizes are of all threads together, in bytes; load_factor: how full a key map may get."""

    threads: int = setting("log.cleaner.threads")
    dedupe_buffer_bytes: int = setting("log.cleaner.dedupe.buffer.size")
    load_factor: float = setting("log.cleaner.io.buffer.load.factor")
    io_buffer_bytes: int = setting("log.cleaner.io.buffer.size")
    io_max_bytes_per_second: float = setting("log.cleaner.io.max.bytes.per.second")
    backoff_ms: int = setting("log.cleaner.backoff.ms")
    is_enabled: bool = setting("log.cleaner.enable")

    @property
    def map_bytes_per_thread(self) -> int:
        """The memory of one thread's key map."""
        return self.dedupe_buffer_bytes // max(self.threads, 1)

    @property
    def buffer_bytes_per_thread(self) -> int:
        """The size of one thread's buffer for reading; it has another one for writing."""
        return self.io_buffer_bytes // max(self.threads, 1) // 2

    @property
    def bytes_per_second_per_thread(self) -> float:
        """One thread's share of the rate: each thread's process limits itself."""
        return self.io_max_bytes_per_second / max(self.threads, 1)

    def check(self) -> None:
        """Check the memory. Raises ConfigError: a map of this size could never hold a key."""
        if self.map_bytes_per_thread // SKIMPY_BYTES_PER_ENTRY * self.load_factor <= 1:
            raise ConfigError(
                "offset map is too small to fit in even a single message, so log cleaning will never make progress."
                " You can increase log.cleaner.dedupe.buffer.size or decrease log.cleaner.threads"
            )
