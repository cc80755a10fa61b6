"""A segment of a log: its batches, its indexes, and the files below them, which are opened and closed on demand.

`log_segment.LogSegment` is the entry point, made by `factory.SegmentFactory`; only `storage` imports this package.
"""
