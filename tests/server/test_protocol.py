"""Whatever JSON comes, reading it ends in an order within its bounds or in a 400."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fewbit.server.body import parse
from fewbit.server.errors import ApiError
from fewbit.server.parameters import NEUTRAL, common
from fewbit.server.protocol import read_chat, read_completion

NAMES = [
    *common(100),
    *NEUTRAL,
    "messages",
    "prompt",
    "echo",
    "logprobs",
    "top_logprobs",
    "max_completion_tokens",
]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    scalars | st.sampled_from([0, 1, -1, 2**31, 2**63, 2**64, 1e308]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "include_usage", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
bodies = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), values, max_size=6)


@settings(max_examples=400, deadline=None)
@given(bodies, st.booleans())
@example({"prompt": "x", "n": 10**400}, False)
@example({"messages": [{"role": [], "content": {}}]}, True)
def test_any_body(body: dict[str, Any], chat: bool) -> None:
    if chat:
        body = {"messages": [{"role": "user", "content": "x"}]} | body
    try:
        order = (read_chat if chat else read_completion)(body, 100)
    except ApiError as error:
        assert error.status == 400 and str(error) and "\n" not in str(error)
        return
    assert 1 <= order.n <= 16 and 0 <= order.seed < 2**64
    assert order.max_tokens is None or 0 <= order.max_tokens <= 100
    order.sampling(order.n - 1, 50, (2,))  # which checks everything again


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=60)
    | st.text(max_size=60).map(str.encode)
    | values.map(lambda value: json.dumps(value).encode())
)
def test_any_bytes(data: bytes) -> None:
    try:
        assert isinstance(parse(data), dict)
    except ApiError as error:
        assert error.status == 400
