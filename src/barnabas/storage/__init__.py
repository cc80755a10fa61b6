"""Logs on disk: segments, indexes, checkpoints, recovery, and the manager that owns them all.

The files are Kafka's, byte for byte, so that either broker opens the other's data directory. `replica` calls this
package from above; only this package knows segments and indexes.

`log` is one partition's log, `segment` a segment of it, `validation` the checks of a produced batch, `producers` the
state of idempotent and transactional producers, `directories` the directories of `log.dirs`, `cleaner` compaction, and
`dump` what `barnabas log dump` prints. LogManager and what all of them share stand beside these rooms.
"""
