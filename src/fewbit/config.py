"""What a user can set, as frozen dataclasses that the command line turns into flags of the same names.

Each field has its meaning beside it, in the class's docstring, in its own unit. `None` means: fewbit decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Activations = Literal["auto", "16", "8"]
Backend = Literal["auto", "reference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """How a checkpoint becomes a model on this machine.

    Attributes
    ----------
    activations
        Bits of the activations that enter a matrix product: int8 where the checkpoint declares it, else 16 (or 32 where
        that is what the machine computes in), unless 16 or 8 are asked for.
    backend
        Which kernels to use; reference means numpy, slow, and needs allow_reference.
    allow_reference
        Permit the reference backend, for comparison, and for checkpoints that no kernel of this machine serves.
    threads
        Worker threads; by default one per physical core that the process may use.
    quantization
        What the checkpoint must be, as `fewbit support --formats` names it; by default whatever it is.
    """

    activations: Activations = "auto"
    backend: Backend = "auto"
    allow_reference: bool = False
    threads: int | None = None
    quantization: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """Where a model may come from.

    Attributes
    ----------
    offline
        Open no connection: a repository of the hub must be in the local cache. HF_HUB_OFFLINE=1 does the same.
    """

    offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What the engine may hold and do at once.

    Attributes
    ----------
    context
        Longest sequence in tokens, prompt and answer together; by default the model's own limit, as memory allows.
    max_sequences
        Sequences that generate at the same time.
    batch_tokens
        Tokens of one step at most; longer prompts are read in chunks.
    kv_memory
        Bytes for keys and values, like 2GiB; by default enough for max_sequences at the context.
    queue
        Requests that may wait; one more is refused.
    """

    context: int | None = None
    max_sequences: int = 16
    batch_tokens: int = 512
    kv_memory: str | None = None
    queue: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Where the server listens and how it ends. The API key comes from FEWBIT_API_KEY alone.

    Attributes
    ----------
    host
        Address to listen on; anything but the machine itself needs an API key.
    port
        TCP port.
    drain_timeout
        Seconds that running requests may still take after SIGTERM.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    drain_timeout: float = 30.0


_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
          "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}  # fmt: skip


def parse_bytes(text: str) -> int:
    """`2GiB`, `512 MB`, `1073741824`: a whole number of bytes; ValueError says what was expected."""
    number = text.strip().rstrip("bBiIkKmMgGtT ")
    unit = text.strip()[len(number) :].strip().lower()
    try:
        value = float(number) * _UNITS[unit]
    except (KeyError, ValueError):
        raise ValueError(f"{text!r} is no size; expected a number with a unit, like 2GiB or 512MB") from None
    if not 0 <= value < 2**63:
        raise ValueError(f"{text!r} is no size; expected 0 bytes or more, below 2**63")
    return int(value)


def format_bytes(count: int) -> str:
    """Binary units with three digits: 98.4 MiB."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1000 or unit == "TiB":
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"
