"""Layers: what binds schemes, layouts and kernels to a Linear, an Embedding, a norm, rotary positions, attention."""
