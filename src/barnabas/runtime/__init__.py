"""What the broker takes from the operating system, each behind a small Protocol: time, timers, disks, logging.

Every layer may import it; it imports nothing of ours. Tests pass the mock counterparts of `tests/support`.
"""
