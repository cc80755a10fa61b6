"""Tests of the sources themselves: layers, sizes, documents that must agree with the code."""
