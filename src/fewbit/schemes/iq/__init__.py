"""Weights whose runs of 4 or 8 are rows of a fixed grid (GGUF's IQ1, IQ2 and IQ3 types)."""
