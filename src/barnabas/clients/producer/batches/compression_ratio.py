"""Estimates how well the records of a topic compress, so that compressed batches come out full.

Guarded by the accumulator's lock. The estimate begins at 1. It falls slowly and rises quickly, because a batch that
turns out too large must be split. Kafka: CompressionRatioEstimator.
"""

from __future__ import annotations

from barnabas.records.compression import Codec

# Kafka's constants: COMPRESSION_RATIO_IMPROVING_STEP and COMPRESSION_RATIO_DETERIORATE_STEP.
_IMPROVING_STEP = 0.005
_DETERIORATE_STEP = 0.05
SAFETY_FACTOR = 1.05


class CompressionRatioEstimator:
    """The estimates of compressed size / uncompressed size, per topic and codec."""

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, Codec], float] = {}

    def estimate(self, topic: str, codec: Codec) -> float:
        """Return the estimate, 1.0 for a topic never seen."""
        return 1.0 if codec is Codec.NONE else self._ratios.get((topic, codec), 1.0)

    def observe(self, topic: str, codec: Codec, ratio: float) -> None:
        """Take the ratio of a compressed batch into the estimate."""
        # Too low an estimate makes batches that the broker rejects and that must be split; too high a one only makes
        # them smaller than they could be.
        current = self.estimate(topic, codec)
        if ratio > current:
            self._ratios[topic, codec] = max(current + _DETERIORATE_STEP, ratio)
        elif ratio < current:
            self._ratios[topic, codec] = max(current - _IMPROVING_STEP, ratio)

    def reset(self, topic: str, codec: Codec, ratio: float) -> None:
        """Expect no compression at all, because a batch was too large."""
        self._ratios[topic, codec] = max(1.0, ratio)
