"""Kernels: the ops, and the backends that run them. A kernel knows nothing of formats."""
