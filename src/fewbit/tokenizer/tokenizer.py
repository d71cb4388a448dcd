"""Text to token ids, by a checkpoint's own tokenizer.json text. No file is read and no code of the checkpoint runs."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from tokenizers import Tokenizer as FastTokenizer

from fewbit.formats.checkpoint import TokenizerFiles
from fewbit.spec.refusal import CheckpointError, FewbitError
from fewbit.tokenizer.chat_template import ChatTemplate
from fewbit.tokenizer.detokenizer import Detokenizer
from fewbit.tokenizer.token_bytes import TokenBytes

# The library would start a thread pool of its own, which would fight ours for the cores.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

PIECE = 8192  # characters
SLACK = 64  # tokens that cutting a text in two may add, amply


class TooLongError(FewbitError):
    """The text has more tokens than asked for: at least `tokens`."""

    def __init__(self, tokens: int, most: int) -> None:
        self.tokens, self.most = tokens, most
        super().__init__(f"the text has at least {tokens} tokens, and at most {most} fit")


class _Json(msgspec.Struct):
    decoder: Any = None


class Tokenizer:
    """Encodes raw text and conversations, and makes detokenizers.

    Raw text (`encode`) is taken as it is: control tokens written in it are control tokens. In a conversation
    (`encode_chat`) they are control tokens only where the template wrote them; what a user writes stays text.
    """

    def __init__(self, files: TokenizerFiles) -> None:
        self.files = files
        try:
            self._tokenizer = FastTokenizer.from_str(files.json)
        except Exception as error:  # the library raises Exception itself
            raise CheckpointError(f"tokenizer.json can't be used: {str(error)[:200]}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.token_bytes = TokenBytes(self._tokenizer, msgspec.json.decode(files.json, type=_Json).decoder)
        added = self._tokenizer.get_added_tokens_decoder()
        self.special_ids = files.special_ids | {
            token_id for token_id, token in added.items() if token.special
        }
        self._template: ChatTemplate | None = None

    @property
    def vocab(self) -> int:
        return self._tokenizer.get_vocab_size()

    @property
    def eos_ids(self) -> tuple[int, ...]:
        return self.files.eos_ids

    @property
    def has_chat_template(self) -> bool:
        return bool(self.files.chat_template)

    def encode(self, text: str, most: int | None = None) -> list[int]:
        """Raw text, with the begin-of-text token if the checkpoint asks for one.

        With `most`, a text that certainly has more tokens is refused early (TooLongError): the time then depends on the
        limit and not on the text. A text that has few more may still be encoded in full.
        """
        self._check_length(text, most)
        add_bos = self.files.add_bos
        ids = self._ids(self._tokenizer, text, specials=add_bos is None)
        return [self.files.bos_id, *ids] if add_bos and self.files.bos_id is not None else ids

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, str]],
        kwargs: Mapping[str, Any] | None = None,
        most: int | None = None,
    ) -> list[int]:
        """A conversation by the chat template, up to where the assistant's answer begins. Waits for a child process."""
        marked, literals = self._mark(messages)
        text = self._chat_template().render(marked, kwargs)
        self._check_length(text, most)
        ids: list[int] = []
        for index, piece in enumerate(re.split(self._marks, text)):
            if index % 2:
                ids += self._ids(self._plain, literals[int(piece)])
            elif piece:
                ids += self._ids(self._tokenizer, piece)
        return ids

    def detokenizer(self) -> Detokenizer:
        return Detokenizer(self.token_bytes, self.special_ids)

    def close(self) -> None:
        if self._template:
            self._template.close()

    @staticmethod
    def _ids(tokenizer: FastTokenizer, text: str, specials: bool = False) -> list[int]:
        """A batch of one: unlike `encode`, it lets other threads run, and computes no offsets."""
        ids: list[int] = tokenizer.encode_batch_fast([text], add_special_tokens=specials)[0].ids
        return ids

    def _check_length(self, text: str, most: int | None) -> None:
        if most is None:
            return
        surely = 0
        for start in range(0, len(text), PIECE) if len(text) > PIECE else ():
            surely += len(self._ids(self._tokenizer, text[start : start + PIECE])) - SLACK
            if surely > most:
                raise TooLongError(surely, most)

    def _chat_template(self) -> ChatTemplate:
        if self._template is None:
            if not self.files.chat_template:
                raise FewbitError("this model has no chat template; send a plain prompt to /v1/completions")
            bos, eos, pad = (
                self.token_bytes[token_id].decode() if token_id is not None else ""
                for token_id in (self.files.bos_id, self.files.eos_id, self.files.pad_id)
            )
            constants = {"bos_token": bos, "eos_token": eos, "pad_token": pad}
            self._template = ChatTemplate(self.files.chat_template, constants)
        return self._template

    # Control tokens in a user's text: each is replaced by a mark that no user can guess, the template is rendered, and
    # what the mark stands for is encoded as plain text. Only such texts pay for it.

    @cached_property
    def _marks(self) -> str:
        return f"\ue000{secrets.token_hex(8)}:([0-9]+)\ue001"

    @cached_property
    def _literals(self) -> re.Pattern[str]:
        texts = {self.token_bytes[token_id].decode(errors="ignore") for token_id in self.special_ids}
        return re.compile(
            "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True) if text) or r"(?!)"
        )

    @cached_property
    def _plain(self) -> FastTokenizer:
        """A second tokenizer, for which control tokens are text."""
        plain = FastTokenizer.from_str(self.files.json)
        plain.encode_special_tokens = True
        return plain

    def _mark(self, messages: Sequence[Mapping[str, str]]) -> tuple[list[dict[str, str]], list[str]]:
        literals: list[str] = []
        mark = self._marks.replace("([0-9]+)", "{}")

        def replace(match: re.Match[str]) -> str:
            literals.append(match[0])
            return mark.format(len(literals) - 1)

        marked = [
            {**message, "content": self._literals.sub(replace, message["content"])} for message in messages
        ]
        return marked, literals
