"""Child process that renders chat templates: `python -I template_worker.py`, one JSON object a line each way.

A template is a program that came with a checkpoint. Fuel bounds its steps, but one step may double a string, and a failed
allocation aborts the process; so it runs here, under limits on memory and CPU time, where the parent can kill it.
Values are JSON, never Python objects: minijinja would call their methods.
"""

from __future__ import annotations

import json
import resource
import sys
from datetime import datetime
from typing import Any

import minijinja

FUEL = 10_000_000  # about 0.3 s
MEMORY_BYTES = 512 << 20


class TemplateRefusal(Exception):
    """The template itself called raise_exception."""


def raise_exception(message: Any = "") -> None:
    raise TemplateRefusal(str(message)[:300])


def strftime_now(form: Any) -> str:
    return datetime.now().strftime(str(form)[:100])


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """As templates expect it: minijinja's own would escape < > & ' for HTML."""
    separators = tuple(separators) if separators else None
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def environment(source: str) -> minijinja.Environment:
    env = minijinja.Environment(pycompat=True)
    env.trim_blocks = env.lstrip_blocks = True
    env.fuel = FUEL
    env.auto_escape_callback = lambda name: False
    env.add_function("raise_exception", raise_exception)
    env.add_function("strftime_now", strftime_now)
    env.add_filter("tojson", tojson)
    env.add_template("chat", source)
    return env


def reason(error: BaseException) -> str:
    """One line of what went wrong; what the template says itself comes first."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TemplateRefusal):
            return f"the template refuses: {cause}"
        cause = cause.__cause__ or cause.__context__
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    env: minijinja.Environment | None = None
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            if "source" in request:
                env = environment(request["source"])
                answer = {"text": ""}
            else:
                assert env is not None
                answer = {"text": env.render_template("chat", **request)}
        except Exception as error:
            answer = {"error": reason(error)}
        sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode(errors="replace") + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
