"""Vector codebooks: one code stands for a run of values, a row of a codebook; several codebooks add up."""
