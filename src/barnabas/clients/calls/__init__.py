"""Requests for callers that wait for the answer."""
