"""The GGUF format: a file (or its split parts) with metadata, tokenizer and tensors of GGML block types."""

from __future__ import annotations

from fewbit.formats.gguf.checkpoint import open_gguf

__all__ = ["open_gguf"]
