"""Hugging Face folders whose weights are plain floats in safetensors."""

from __future__ import annotations

from fewbit.formats.plain.checkpoint import open_plain

__all__ = ["open_plain"]
