"""Weights stored as floats."""
