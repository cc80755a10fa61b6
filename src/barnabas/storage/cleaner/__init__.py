"""The log cleaner: which log is compacted next, the work in a process of its own, and the swap of what it made.

`log_cleaner.LogCleaner` is the entry point, used by LogManager. Kafka: LogCleaner, LogCleanerManager, Cleaner.
"""
