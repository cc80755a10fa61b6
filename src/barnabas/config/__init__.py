"""Settings: Kafka's table of broker and topic settings, parsed once into frozen snapshots.

Every layer reads its own small part through `KafkaConfig`; nothing here imports anything else of ours.
"""
