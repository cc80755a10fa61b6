"""Log directories read by another process than their broker: beside it, or after it was stopped or killed.

Nothing here writes, locks or recovers. The broker never imports this package.
"""
