"""The capability registry: one table of kernel rows, read by dispatch, errors, documents and tests. Standard library only."""
