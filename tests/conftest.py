"""What holds for every test: the kit's fixture, hypothesis profiles, threads that must not be left behind."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Locks taken in an order that could deadlock are an error, here and in every broker process that tests start.
os.environ["BARNABAS_CHECK_LOCK_ORDER"] = "1"

# Deadlines would time the machine, not the code; CI runs the same examples every time.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI", "").lower() == "true" else "default")
