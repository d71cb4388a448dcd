"""Token ids to text, one at a time. A character is given out when its last byte has come, never a part of it."""

from __future__ import annotations

import codecs
from collections.abc import Set

from fewbit.tokenizer.token_bytes import TokenBytes

_utf8 = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """State of one text. Bytes that are no UTF-8 at all become U+FFFD; a character left incomplete at the end is dropped."""

    def __init__(self, token_bytes: TokenBytes, skip: Set[int] = frozenset()) -> None:
        self._bytes = token_bytes
        self._skip = skip
        self._decode = _utf8("replace").decode

    def feed(self, token_id: int) -> str:
        """The text that this token completes, "" when it ends inside a character or is a control token."""
        return "" if token_id in self._skip else self._decode(self._bytes[token_id])
