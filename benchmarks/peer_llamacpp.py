"""llama.cpp as a measured process, through the public server interface of the xllamacpp package. Standard library only.

usage: PEER_PYTHON peer_llamacpp.py MODEL.gguf THREADS

Speaks the protocol of `benchmarks.worker`: one JSON object a line. The times are the peer's own, which leave out HTTP.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import urllib.request


class Peer:
    def __init__(self, model: str, threads: int) -> None:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = model
        params.n_ctx, params.n_parallel, params.warmup = 2048, 1, True
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        self.server = xllamacpp.Server(params)
        self.version = f"xllamacpp {importlib.metadata.version('xllamacpp')}"

    def generate(self, prompt: list[int], tokens: int) -> dict[str, object]:
        body = {
            "prompt": prompt, "n_predict": tokens, "temperature": 0, "cache_prompt": False, "ignore_eos": True,
            "return_tokens": True,
        }  # fmt: skip
        request = urllib.request.Request(
            self.server.listening_address + "/completion",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            found = json.load(answer)
        timings = found["timings"]
        if timings["prompt_n"] != len(prompt) or timings["predicted_n"] != tokens:
            raise RuntimeError(f"asked for {len(prompt)} + {tokens} tokens, got {timings}")
        # predicted_ms spans all tokens but the first, which the prompt's last row gave
        return {
            "tokens": found["tokens"],
            "prefill_s": timings["prompt_ms"] / 1e3,
            "decode_s": timings["predicted_ms"] / 1e3,
        }


def main() -> None:
    answers = os.fdopen(
        os.dup(1), "w", buffering=1
    )  # the library prints to standard output; the protocol has its own
    os.dup2(2, 1)
    peer = Peer(sys.argv[1], int(sys.argv[2]))
    print(json.dumps({"version": peer.version}), file=answers)
    for line in sys.stdin:
        print(json.dumps(peer.generate(**json.loads(line))), file=answers)


if __name__ == "__main__":
    main()
