"""The bytes that each token stands for. Text is made of bytes: a character may be spread over several tokens.

Two spellings are known, told apart by the tokenizer's decoder: byte level (GPT-2: every byte is a printable character,
a space is U+0120) and SentencePiece (a space is U+2581, bytes that no token covers are <0x0A>).
"""

from __future__ import annotations

import re
from typing import Any

from tokenizers import Tokenizer

SPACE = "\u2581"
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_level_alphabet() -> dict[str, int]:
    """Character -> byte: printable Latin-1 stands for itself, the other bytes for U+0100, U+0101, ... in order."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in kept]
    return {chr(byte): byte for byte in kept} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


def decoder_kinds(decoder: Any) -> set[str]:
    """Names of the steps of a tokenizer.json decoder, sequences opened."""
    if not isinstance(decoder, dict):
        return set()
    if decoder.get("type") == "Sequence":
        return set().union(*(decoder_kinds(step) for step in decoder.get("decoders", ())))
    return {str(decoder.get("type"))}


class TokenBytes:
    def __init__(self, tokenizer: Tokenizer, decoder: Any) -> None:
        self._tokenizer = tokenizer
        self._added = {
            token_id: token.content for token_id, token in tokenizer.get_added_tokens_decoder().items()
        }
        self._alphabet = byte_level_alphabet() if "ByteLevel" in decoder_kinds(decoder) else None
        self._known: dict[int, bytes] = {}

    def __getitem__(self, token_id: int) -> bytes:
        """b"" for an id without a token: models pad their vocabulary."""
        known = self._known.get(token_id)
        if known is None:
            known = self._known[token_id] = self._spell(token_id)
        return known

    def _spell(self, token_id: int) -> bytes:
        if token_id in self._added:
            return self._added[token_id].encode()
        token = self._tokenizer.id_to_token(token_id)
        if token is None:
            return b""
        if self._alphabet is not None:
            if all(character in self._alphabet for character in token):
                return bytes(self._alphabet[character] for character in token)
            return token.encode()
        if match := BYTE.fullmatch(token):
            return bytes([int(match[1], 16)])
        return token.replace(SPACE, " ").encode()
