"""Batches on their way to a broker: their records' futures, their sequence numbers, and how they end."""
