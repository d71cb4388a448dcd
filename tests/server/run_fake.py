"""A server process over the fake model, for tests of signals: python -m tests.server.run_fake PORT DRAIN_S STEP_S."""

import sys

from fewbit.server.launch import listen, serve
from tests.engine.fake_runner import limits
from tests.server.fake_model import VOCAB, build


def main() -> None:
    port, drain_s, step_s = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    bounds = limits(context=4096, sequences=4, waiting=8, batch=64, pages=4 * 128 + 1, vocab=VOCAB)
    service, engine, _ = build(bounds, step_s)
    engine.start()
    bound = listen("127.0.0.1", port)
    serve(service, bound, None, drain_s, lambda: print(bound.getsockname()[1], flush=True))
    engine.stop()
    service.tokenizer.close()


if __name__ == "__main__":
    main()
