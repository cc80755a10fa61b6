"""Tests of bytes: the codec against other people's, and a live broker's answers to wrong ones."""
