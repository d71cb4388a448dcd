"""Small floats: 4, 6 and 8 bits, as codes with a scale (FP8, MX, NVFP4) and as scales themselves."""
