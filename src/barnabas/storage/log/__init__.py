"""One partition's log: appends, reads, watermarks, epochs, truncation, retention, and opening after a stop or a crash.

`unified_log.UnifiedLog` is the entry point, made by `loader.load_log`. Nothing here knows other logs or their manager.
"""
