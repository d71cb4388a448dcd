"""Panels of 32 rows whose parts lie apart: any group, any type of scale."""
