"""Committed offsets: commit, fetch, delete, expire."""
