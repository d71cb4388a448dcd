"""A typed no: which axis of the question failed, what was asked, what is on offer, and what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    axis: str
    asked: str
    offered: tuple[str, ...] = ()
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.axis} {self.asked} is not supported"
        if self.offered:
            text += f" (offered: {', '.join(self.offered)})"
        return f"{text}; {self.hint}" if self.hint else text


class FewbitError(Exception):
    """An error whose text is meant for the user: what was found, where, what was expected, what to do. No traceback."""


class CheckpointError(FewbitError):
    """A checkpoint that cannot be read or is inconsistent; the text names file and tensor."""


class RefusedError(FewbitError):
    """Nothing on this platform serves what was asked; carries the refusals."""

    def __init__(self, subject: str, refusals: tuple[Refusal, ...]) -> None:
        self.subject, self.refusals = subject, refusals
        super().__init__(f"{subject}: " + "; ".join(str(r) for r in refusals))
