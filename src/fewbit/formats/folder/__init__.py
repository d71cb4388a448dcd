"""What all formats of Hugging Face folders share: safetensors, config, tokenizer, and the way from disk tensors to canonical ones.

A format adds what is its own: its config keys, which module is stored how, and nothing else (`resolve.py` says how).
"""
