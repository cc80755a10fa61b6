"""The broker's replicas: who leads a partition, what may be appended to it and read from it, and who waits for it.

Called by the request handlers; calls the logs below. `replica_manager.ReplicaManager` is the door.
"""
