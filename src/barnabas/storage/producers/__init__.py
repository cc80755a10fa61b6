"""The state of a log's producers: sequences, epochs, open transactions; and their snapshots on the disk.

`state_manager.ProducerStateManager` is the entry point, owned by a UnifiedLog. Kafka: ProducerStateManager.
"""
