"""Record batches: Kafka's formats v0, v1 and v2, checksums and codecs. Pure: no threads, locks, clocks or files.

Used by storage (validation, recovery, conversion), by the clients (building and reading) and by the Spark source.
"""
