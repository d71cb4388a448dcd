import pytest

from fewbit.evaluate.windows import Window, windows


def test_windows_cover_every_token_once_and_keep_the_order():
    ids = list(range(1000, 1010))
    assert [w.tokens for w in windows(ids, 4)] == [
        (1000, 1001, 1002, 1003),
        (1004, 1005, 1006, 1007),
        (1008, 1009),
    ]


def test_a_last_window_of_one_token_scores_nothing_and_is_left_out():
    assert [len(w.tokens) for w in windows(range(9), 4)] == [4, 4]


def test_with_bos_every_token_of_the_text_is_scored():
    found = list(windows(range(10, 19), 4, bos=1))
    assert [w.tokens for w in found] == [(1, 10, 11, 12), (1, 13, 14, 15), (1, 16, 17, 18)]
    assert sum(w.scored for w in found) == 9


def test_blocks_cover_the_rows_that_predict_a_token():
    assert list(Window(tuple(range(131))).blocks(64)) == [(0, 64), (64, 128), (128, 130)]


@pytest.mark.parametrize("chunk, bos", [(1, None), (0, None), (1, 5)])
def test_a_window_that_scores_nothing_is_refused(chunk, bos):
    with pytest.raises(ValueError, match="at least 2"):
        list(windows(range(10), chunk, bos))
