"""How good a quantized model still is: perplexity on a text, and its divergence from a reference."""
