"""Client quotas: how much each client used, how much it may use, and how long it has to wait when that was too much.

In-memory state only: what is configured is kept by `metadata.client_quotas`; `api.throttle` charges requests.
"""
