"""Codes of 8 weights that are points near the lattice E8: the codebook is computed, no file holds it."""
