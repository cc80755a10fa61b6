"""The services of the operating system, each behind a small Protocol: time, timers, threads, disks, logging.

Every layer may import this package; it imports no other of Barnabas. Tests pass the mocks of `tests/support`.
"""
