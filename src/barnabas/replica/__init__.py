"""The broker's replicas: leadership of partitions, appends and reads over them, and the requests that wait for them.

Called by the request handlers; calls the logs below. `replica_manager.ReplicaManager` puts the parts together.
"""
