"""What the coordinators of groups and of transactions both do with the partitions of their topics.

`partitions` knows which partitions this broker coordinates, and in which one an id is kept; `coordinator_loader` reads
their logs on a thread, in slices; `coordinator_log` appends, and waits for the replicas.
"""
