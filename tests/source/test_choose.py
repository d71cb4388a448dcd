"""Which files of a repository are taken, and which never."""

from __future__ import annotations

import pytest

from fewbit.source.choose import choose
from fewbit.source.errors import SourceError
from fewbit.source.name import HubName, parse_name

MANY = [
    "m-Q4_K_M.gguf",
    "m-Q8_0.gguf",
    "m-BF16-00001-of-00002.gguf",
    "m-BF16-00002-of-00002.gguf",
    "mmproj-F16.gguf",
]


def chosen(names: list[str], file: str = "", revision: str = "") -> tuple[tuple[str, ...], str]:
    found = choose(HubName("o/r", revision, file), names)
    return found.files, found.opened


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/name", HubName("org/name")),
        ("Org-1/na.me_2@refs/pr/3", HubName("Org-1/na.me_2", "refs/pr/3")),
        ("org/name:Q4_K_M", HubName("org/name", "", "Q4_K_M")),
        ("org/name@v1:sub/m-Q8_0.gguf", HubName("org/name", "v1", "sub/m-Q8_0.gguf")),
    ],
)
def test_names(text: str, expected: HubName) -> None:
    assert parse_name(text) == expected


@pytest.mark.parametrize(
    "text", ["name", "a/b/c", "/a/b", "./a/b", "a/b@", "a/b:", "a/b c", "a/b:x@main", "", "a/é"]
)
def test_other_texts_are_no_names(text: str) -> None:
    assert parse_name(text) is None


def test_a_folder_is_weights_json_and_tokenizer_files() -> None:
    taken = ["config.json", "chat_template.jinja", "merges.txt", "tokenizer.model", "model.safetensors"]
    left = [
        "README.md", "modeling_x.py", "pytorch_model.bin", "x.pt", "x.pth", "x.ckpt", "requirements.txt", "onnx/model.onnx",
        "original/params.json", "sub/model.safetensors", "m-Q4_0.gguf", "consolidated.safetensors", ".gitattributes",
    ]  # fmt: skip
    files, opened = chosen(taken + left)
    assert sorted(files) == sorted(taken) and opened == ""


def test_shards_are_taken_with_their_index_and_a_second_copy_is_not() -> None:
    shards = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    index = "model.safetensors.index.json"
    assert chosen([*shards, index, "consolidated.safetensors"])[0] == (index, *shards)
    assert chosen([*shards, "other.safetensors.index.json"])[0] == ("other.safetensors.index.json", *shards)


@pytest.mark.parametrize(
    ("file", "files"),
    [
        ("Q4_K_M", ("m-Q4_K_M.gguf",)),
        ("q8_0", ("m-Q8_0.gguf",)),
        ("m-Q8_0.gguf", ("m-Q8_0.gguf",)),
        ("BF16", ("m-BF16-00001-of-00002.gguf", "m-BF16-00002-of-00002.gguf")),
        ("m-BF16-00002-of-00002.gguf", ("m-BF16-00001-of-00002.gguf", "m-BF16-00002-of-00002.gguf")),
    ],
)
def test_one_of_several_gguf_files(file: str, files: tuple[str, ...]) -> None:
    assert chosen([*MANY, "model.safetensors"], file) == (files, files[0])


def test_a_single_gguf_needs_no_name_and_a_folder_may_bear_the_type() -> None:
    assert chosen(["a.gguf", "README.md", "imatrix.gguf"]) == (("a.gguf",), "a.gguf")
    assert chosen(["Q4_0/a.gguf", "Q8_0/a.gguf"], "Q8_0") == (("Q8_0/a.gguf",), "Q8_0/a.gguf")


@pytest.mark.parametrize(
    ("names", "file", "text"),
    [
        (MANY, "", r"o/r holds 3 GGUF models; name one: o/r:BF16, o/r:Q4_K_M, o/r:Q8_0$"),
        (MANY, "Q4_K", r"holds 3 GGUF models; 'Q4_K' is none of them, name one: o/r:BF16"),
        (["a-Q4_0.gguf", "b-Q4_0.gguf", "c-Q8_0.gguf"], "Q4_0", r"'Q4_0' is 2 of them, name one: o/r:a-Q4_0, o/r:b-Q4_0$"),
        ([f"m{i}-Q4_0.gguf" for i in range(20)], "", r" and 8 more$"),
        (["m-00001-of-00003.gguf", "m-00003-of-00003.gguf"], "", r"holds 2 of 3 parts of m; .*incomplete"),
        (["m-00002-of-00003.gguf"] * 3, "", r"incomplete"),
        (["model.safetensors"], "Q4_0", r"holds no GGUF file, so 'Q4_0' chooses nothing"),
        (["config.json", "pytorch_model.bin"], "", r"^o/r holds its weights as pickle \(pytorch_model.bin\), which fewbit neither"),
        (["config.json", "README.md"], "", r"holds no weights: none of its 2 files"),
        ([], "", r"holds no weights"),
    ],
)  # fmt: skip
def test_refusals(names: list[str], file: str, text: str) -> None:
    with pytest.raises(SourceError, match=text):
        chosen(names, file)
