"""Logs on disk: segments, indexes, checkpoints, recovery, and the manager that owns them all.

Kafka's files, byte for byte, so that either broker opens the other's data directory. `replica` calls it from above;
only this package knows segments and indexes.
"""
