"""`fewbit eval` on the demo model and on tiny ones, against figures that are known."""

from __future__ import annotations

import json

import pytest

from tests.formats.gguf.fixture import tiny_gguf

TEXT = (
    "It is a truth universally acknowledged, that a single man in possession\nof a good fortune, must be in want of a "
    "wife.\n\nHowever little known the feelings or views of such a man may be on his\nfirst entering a neighbourhood, "
)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def evaluate(fewbit_cli, *args) -> dict:
    done = fewbit_cli("eval", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.demo
def test_the_demo_model_is_near_fp32_and_8_bits_are_shown_beside(fewbit_cli, text):
    found = evaluate(fewbit_cli, "demo", "--text", text, "--activations", "auto", "8")
    auto, eight = found["results"]
    assert (auto["activations"], eight["activations"]) == ("auto", "8")
    assert auto["tokens"] == eight["tokens"] == found["tokens_read"] - 1 > 40
    assert auto["kl_mean"] < 5e-4 and auto["dlogp_mean"] < 0.015 and auto["dlogp_max"] < 0.15
    assert auto["perplexity"] == pytest.approx(auto["reference_perplexity"], rel=5e-3)
    assert auto["kl_mean"] < eight["kl_mean"] < 0.05


def test_a_model_beside_itself_diverges_by_nothing(fewbit_cli, text, tmp_path):
    model = tiny_gguf(tmp_path / "tiny.gguf")
    (found,) = evaluate(fewbit_cli, model, "--text", text, "--reference", model, "--chunk", "48")["results"]
    assert (found["kl_mean"], found["kl_max"], found["dlogp_max"], found["top1_agreement"]) == (0, 0, 0, 1)
    assert found["perplexity"] == found["reference_perplexity"]


def test_without_a_reference_there_are_no_divergences(fewbit_cli, text, tmp_path):
    model = tiny_gguf(tmp_path / "tiny.gguf")
    found = evaluate(fewbit_cli, model, "--text", text, "--reference", "none", "--tokens", "20")
    assert found["tokens_read"] == 20
    assert set(found["results"][0]) == {"activations", "tokens", "nll_mean", "perplexity"}


def test_windows_and_blocks_do_not_change_a_tokens_score(tmp_path):
    """Rows read in blocks of 7 equal rows read at once, bit for bit; a window knows nothing of the last one."""
    import numpy as np

    from fewbit.evaluate.subject import Subject
    from fewbit.evaluate.windows import Window

    subject = Subject(tiny_gguf(tmp_path / "tiny.gguf"), 64)
    window = Window(tuple(int(t) for t in np.random.default_rng(0).integers(3, 250, 60)))
    whole = subject.logits(window, 0, 59)
    pieces = [subject.logits(window, start, stop) for start, stop in window.blocks(7)]
    assert np.array_equal(np.concatenate(pieces), whole)


def test_the_table_for_people(fewbit_cli, text, tmp_path):
    model = tiny_gguf(tmp_path / "tiny.gguf")
    done = fewbit_cli("eval", model, "--text", text)
    assert done.returncode == 0, done.stderr
    for part in ("tiny.gguf", "reference fp32", "activations auto", "perplexity", "top-1 agreement"):
        assert part in done.stdout
