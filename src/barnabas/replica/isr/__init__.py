"""A follower's fetch at its leader: its progress, the high watermark, and changes of the in-sync replicas."""
