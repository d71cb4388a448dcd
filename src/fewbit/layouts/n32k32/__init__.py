"""Panels of 32 rows, read in one stream."""
