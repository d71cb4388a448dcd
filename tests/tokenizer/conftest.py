import json

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from fewbit.formats.checkpoint import TokenizerFiles

CORPUS = [
    "Hello world, this is a test.",
    "Grüße aus Köln! 東京 😀 naïve café",
    "def f(x):\n    return x + 1\n",
] * 20
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@pytest.fixture(scope="session")
def byte_level() -> TokenizerFiles:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[AddedToken(text, special=True) for text in SPECIALS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens(["<think>"])
    return TokenizerFiles(
        json=tokenizer.to_str(), chat_template=CHATML, bos_id=0, eos_id=2, eos_ids=(2,), add_bos=False
    )


@pytest.fixture(scope="session")
def sentencepiece() -> TokenizerFiles:
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    vocab = {piece: i for i, piece in enumerate([*pieces, "▁", *"Helowrd", "▁w", "ll", "▁H"])}
    body = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": i,
                "content": text,
                "special": True,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
            }
            for i, text in enumerate(["<unk>", "<s>", "</s>"])
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": vocab,
            "merges": [["▁", "w"], ["l", "l"], ["▁", "H"]],
        },
    }
    return TokenizerFiles(json=json.dumps(body), bos_id=1, eos_id=2, eos_ids=(2,), add_bos=True)
