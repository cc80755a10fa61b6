"""The directories of `log.dirs`: locks, identities, checkpoints, loading and deleting the logs that lie in them.

Owned by `storage.log_manager.LogManager`, which asks them at start, at shutdown and from the scheduler.
"""
