"""What transformers makes of conversations by templates written as the families write them: python make_chat_golden.py"""
import json
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
TEMPLATES = {
    # ChatML with a system message of its own (Qwen2.5, SmolLM2).
    "chatml": """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    # Headers, trimmed content, a first token, and a date unless there is a clock (Llama 3).
    "headers": """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined and never is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start|>system<|end|>\\n\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '<|end|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\\n\\n' }}
{%- endif %}
""",
    # Turns that must alternate, and no system message (Mistral 0.1, Gemma).
    "alternating": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}""",
    # Brackets, the system message in the first user's turn, a namespace and methods of Python's strings.
    "brackets": """{%- set ns = namespace(system='', first=true) -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}{%- set ns.system = message.content.strip() -%}
{%- elif message.role == 'user' -%}
{{ (bos_token if ns.first else '') + '[INST] ' + ((ns.system + '\\n\\n') if ns.first and ns.system else '') + message['content'].strip() + ' [/INST]' }}{%- set ns.first = false -%}
{%- elif message.role == 'assistant' -%}
{{ ' ' + message.content.rstrip() + eos_token }}
{%- else -%}{{ raise_exception('Only user, system and assistant roles are supported: ' ~ message.role.upper()) }}
{%- endif -%}
{%- endfor -%}""",
    # One line for each turn, blocks that trim (Phi-3, Zephyr).
    "tags": """{% for message in messages %}
{% if message['role'] in ['user', 'system'] and message['content'] %}
<|{{ message['role'] }}|>
{{ message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
<|assistant|>
{{ message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
<|assistant|>
{% endif %}
{% endfor %}""",
    # A macro, splitting off what was thought, slices from behind (Qwen3, SmolLM3, DeepSeek).
    "thinking": """{%- macro turn(role, content) -%}
<|{{ role }}|>{{ content }}<|end|>
{%- endmacro -%}
{%- set ns = namespace(last=-1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.last < 0 and message.role == "user" and message.content is string %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'assistant' and '</think>' in message.content and loop.index0 < ns.last %}
        {{- turn(message.role, message.content.split('</think>')[-1].lstrip('\\n')) }}
    {%- elif message.role.startswith('assist') or message.content | length > 0 %}
        {{- turn(message.role, message.content.replace('\\t', ' ')) }}
    {%- else %}
        {%- continue %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}""",
}
CONVERSATIONS = [
    [("user", "Hello!")],
    [("system", " Be brief. "), ("user", "Hi\n"), ("assistant", "Hi.  "), ("user", "Who\tare you? <b>'é'</b> 👋")],
    [("user", "2 + 2?"), ("assistant", "<think>\nsum\n</think>\n\n4"), ("user", "Sure?")],
    [("user", "a"), ("user", "b")],
    [("system", "Only this.")],
    [("user", "x"), ("critic", "y")],
    [("user", ""), ("assistant", "Say something."), ("user", "{{ 1 }} {% if %}")],
]


def render(template, conversation, prompt):
    messages = [{"role": role, "content": content} for role, content in conversation]
    try:
        texts, _ = render_jinja_template([messages], chat_template=template, add_generation_prompt=prompt, **SPECIAL)
        return {"text": texts[0]}
    except Exception as error:
        return {"error": str(error)}


cases = [
    {"template": name, "messages": [list(turn) for turn in conversation], "add_generation_prompt": prompt,
     **render(template, conversation, prompt)}
    for name, template in TEMPLATES.items() for conversation in CONVERSATIONS for prompt in (False, True)
]
golden = {"special_tokens": SPECIAL, "templates": TEMPLATES, "cases": cases}
(Path(__file__).parent / "chat/cases.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")
