"""How well records of a topic compress: a guess, so that batches are filled (Kafka: CompressionRatioEstimator).

Guarded by the accumulator's lock. The estimate begins at 1, follows good news slowly and bad news quickly: a batch
that turns out too large must be split.
"""

from __future__ import annotations

from barnabas.records.compression import Codec

_IMPROVING_STEP = 0.005
_DETERIORATE_STEP = 0.05
SAFETY_FACTOR = 1.05


class CompressionRatioEstimator:
    """Compressed size / uncompressed size, per topic and codec."""

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, Codec], float] = {}

    def estimate(self, topic: str, codec: Codec) -> float:
        """The estimate, 1.0 for a topic never seen."""
        return 1.0 if codec is Codec.NONE else self._ratios.get((topic, codec), 1.0)

    def observe(self, topic: str, codec: Codec, ratio: float) -> None:
        """A batch was compressed."""
        current = self.estimate(topic, codec)
        if ratio > current:
            self._ratios[topic, codec] = max(current + _DETERIORATE_STEP, ratio)
        elif ratio < current:
            self._ratios[topic, codec] = max(current - _IMPROVING_STEP, ratio)

    def reset(self, topic: str, codec: Codec, ratio: float) -> None:
        """A batch was too large: expect no compression at all."""
        self._ratios[topic, codec] = max(1.0, ratio)
