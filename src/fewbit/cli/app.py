"""The `fewbit` command. Commands are named by import path, so that help never loads numpy or the kernel library."""

from __future__ import annotations

import sys
from typing import NoReturn

from cyclopts import App, Parameter

from fewbit import __version__

COMMANDS = {
    "serve": "Serve a model over an OpenAI-compatible HTTP API, with a chat page.",
    "chat": "Talk to a model in the terminal.",
    "run": "Complete one prompt, or every line of a file of prompts.",
    "inspect": "Say which kernel each layer of a model would run with here, without reading its weights.",
    "support": "Print the support matrix, or explain one cell of it.",
    "doctor": "Print what this machine provides: CPU, caches, limits, library, measured roofs.",
    "convert": "Write a checkpoint in another format, without loss or not at all.",
    "bench": "Measure the speed of kernels on this machine, beside its roofs.",
    "eval": "Measure perplexity, and divergence from a reference, on a text file.",
}

INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def build() -> App:
    app = App(
        name="fewbit",
        help="Serve quantized language models on CPUs. MODEL is a GGUF file, a Hugging Face folder, `demo`, or `org/name` of the "
        "Hugging Face hub (`org/name@revision`; `org/name:Q4_K_M` where it holds several GGUF files).",
        version=__version__,
        help_format="plaintext",
        default_parameter=Parameter(negative=()),
    )
    for name, text in COMMANDS.items():
        app.command(f"fewbit.cli.{name}:{name}", name=name, help=text)
    return app


app = build()


def main(tokens: list[str] | None = None) -> NoReturn:
    """Run one command and exit: 0 done, 1 refused with a sentence, 2 misused, 130 interrupted."""
    from fewbit.spec.refusal import FewbitError

    try:
        app(tokens)
    except FewbitError as error:
        print(f"fewbit: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # `fewbit support | head`
        sys.stderr.close()
        sys.exit(0)
    sys.exit(0)


if __name__ == "__main__":
    main()
