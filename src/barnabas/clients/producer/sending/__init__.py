"""The sending thread of a producer: its batches and its other requests."""
