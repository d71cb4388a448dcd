"""Checkpoints of one format rewritten in another: without loss where the target can say the same numbers, else refused."""
