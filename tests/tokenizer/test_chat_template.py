"""Templates are foreign programs: right ones render as under jinja2, wrong ones end soon and with a sentence."""

from __future__ import annotations

import time

import pytest

from fewbit.tokenizer.chat_template import ChatTemplate, ChatTemplateError

MESSAGES = [
    {"role": "system", "content": " Be brief. "},
    {"role": "user", "content": "Hi <b>'you'</b> & \"me\" ü 😀"},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": "Go"},
]

GOOD = {
    "chatml": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nDefault<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "llama3": "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
    "mistral": "{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content'] %}\n"
    "    {%- set loop_messages = messages[1:] %}\n{%- else %}\n    {%- set loop_messages = messages %}\n{%- endif %}\n\n"
    "{{- bos_token }}\n{%- for message in loop_messages %}\n"
    "    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\n"
    "        {{- raise_exception('roles must alternate') }}\n    {%- endif %}\n"
    "    {%- if message['role'] == 'user' %}\n        {%- if loop.first and system_message is defined %}\n"
    "            {{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}\n        {%- else %}\n"
    "            {{- ' [INST] ' + message['content'] + ' [/INST]' }}\n        {%- endif %}\n"
    "    {%- else %}\n        {{- ' ' + message['content'] + eos_token}}\n    {%- endif %}\n{%- endfor %}\n",
    "qwen3": "{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}\n"
    "{%- for message in messages[::-1] %}\n    {%- set index = (messages|length - 1) - loop.index0 %}\n"
    '    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and '
    "not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}\n"
    "        {%- set ns.multi_step_tool = false %}\n        {%- set ns.last_query_index = index %}\n    {%- endif %}\n"
    "{%- endfor %}\n{%- for message in messages %}\n"
    "    {{- '<|im_start|>' + message.role + '\\n' + message.content.split('</think>')[-1].lstrip('\\n') + '<|im_end|>' + '\\n' }}\n"
    "{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n"
    "    {%- if enable_thinking is defined and enable_thinking is false %}\n        {{- '<think>\\n\\n</think>\\n\\n' }}\n"
    "    {%- endif %}\n{%- endif %}",
    "tojson": "{{ messages | tojson }}\n{{ messages[0] | tojson(indent=2) }}{% if tools %}tools{% endif %}",
}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("kwargs", [{}, {"enable_thinking": False}])
def test_same_text_as_jinja2(name: str, kwargs: dict[str, bool]) -> None:
    sandbox = pytest.importorskip("jinja2.sandbox")
    import json

    env = sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    constants = {"bos_token": "<s>", "eos_token": "</s>"}
    expected = env.from_string(GOOD[name]).render(
        messages=MESSAGES, add_generation_prompt=True, tools=None, **constants, **kwargs
    )
    template = ChatTemplate(GOOD[name], constants)
    assert template.render(MESSAGES, kwargs) == expected
    template.close()


def test_enable_thinking_reaches_the_template() -> None:
    template = ChatTemplate(GOOD["qwen3"], {})
    assert template.render(MESSAGES, {"enable_thinking": False}).endswith("<think>\n\n</think>\n\n")
    assert template.render(MESSAGES).endswith("<|im_start|>assistant\n")
    template.close()


def test_messages_cannot_be_changed_and_constants_not_overridden() -> None:
    template = ChatTemplate("{{ bos_token }}{{ messages | length }}", {"bos_token": "<s>"})
    messages = [{"role": "user", "content": "x"}]
    assert template.render(messages, {"messages": [], "bos_token": "evil"}) == "<s>1"
    template.close()


def test_the_template_refuses() -> None:
    template = ChatTemplate(GOOD["mistral"], {"bos_token": "", "eos_token": ""})
    with pytest.raises(ChatTemplateError, match="the template refuses: roles must alternate"):
        template.render([{"role": "assistant", "content": "x"}])
    assert template.render([{"role": "user", "content": "x"}]) == " [INST] x [/INST]"
    template.close()


DOUBLING = "{% set ns = namespace(x=START) %}{% for i in range(40) %}{% set ns.x = STEP %}{% endfor %}{{ ns.x|length }}"

BOMBS = {
    "long loop": "{% for i in range(100000000) %}x{% endfor %}",
    "nested loops": "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}",
    "repeated string": "{{ 'a' * 2000000000 }}",
    "doubled string": DOUBLING.replace("START", "'a'").replace("STEP", "ns.x ~ ns.x"),
    "doubled list": DOUBLING.replace("START", "[1]").replace("STEP", "ns.x + ns.x"),
    "nested list as JSON": DOUBLING.replace("START", "[1]")
    .replace("STEP", "[ns.x, ns.x]")
    .replace("|l", "|tojson|l"),
    "replace filter": DOUBLING.replace("START", "'aa'").replace("STEP", "ns.x|replace('a', 'aaaaaaaa')"),
    "replace method": DOUBLING.replace("START", "'aa'").replace("STEP", "ns.x.replace('a', 'aaaaaaaa')"),
    "huge power": "{{ 10**10**10 }}",
    "endless macro": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "branching macro": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "wide format": "{{ '%2000000000s'|format('x') }}",
    "wide join": "{{ range(100000)|join('a'*100000) }}",
    "wide indent": "{{ ('a\n'*100000)|indent(100000) }}",
    "repeated list": "{{ ([1]*1000000000)|length }}",
    "deep expression": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "deep blocks": "{% if 1 %}" * 5000 + "{% endif %}" * 5000,
    "file": "{% include '/etc/passwd' %}",
    "itself": "{% include 'chat' %}",
    "classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "syntax": "{% for %}",
    "unknown filter": "{{ 'a'|center(1000000000) }}",
    "padded time": "{{ strftime_now('%1000000000d' * 1000) | length + 'x' }}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_soon_with_a_sentence(name: str) -> None:
    began = time.monotonic()
    with pytest.raises(ChatTemplateError) as caught:
        ChatTemplate(BOMBS[name], {}).render(MESSAGES)
    assert time.monotonic() - began <= 30  # it ends at all: the fence is 1.25 s, and the machine may be busy
    text = str(caught.value)
    assert text.startswith("the chat template ") and "\n" not in text and "Traceback" not in text


def test_works_again_after_a_bomb() -> None:
    bomb = BOMBS["doubled string"]
    template = ChatTemplate("{% if messages[0].content == 'x' %}" + bomb + "{% else %}fine{% endif %}", {})
    for _ in range(2):
        with pytest.raises(ChatTemplateError):
            template.render([{"role": "user", "content": "x"}])
        assert template.render([{"role": "user", "content": "y"}]) == "fine"
    template.close()
