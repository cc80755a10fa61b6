"""Client quotas: what each client used, what it may use, and how long it has to wait when it used too much.

In-memory state only: `metadata.client_quota_admin` stores the configured quotas; `api.throttle` charges requests.
"""
