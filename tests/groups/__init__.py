"""Exams of consumer groups with other people's clients."""
