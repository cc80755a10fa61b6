"""Settings: Kafka's table of broker and topic settings, parsed once into frozen snapshots.

Every layer declares the small part that it acts on (`setting`). Nothing here imports another package of ours.
"""
