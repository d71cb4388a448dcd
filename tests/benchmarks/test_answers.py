from benchmarks import answers
from benchmarks.answers import compare


def test_equal_tokens_are_right():
    assert compare([1, 2, 3, 9], [1, 2, 3], [1.0, 0.1, 2.0]) == answers.Agreement(3, 3, True)


def test_another_token_is_right_only_at_a_near_tie():
    assert compare([1, 7, 7], [1, 2, 3], [1.0, 0.49, 2.0]) == answers.Agreement(1, 3, True)
    assert compare([1, 7, 7], [1, 2, 3], [1.0, 0.50, 2.0]) == answers.Agreement(1, 3, False)


def test_the_cases_are_those_of_the_golden_files():
    prompt, golden, margins = answers.decode_case()
    assert prompt == [504, 3575, 282, 4649, 314]
    assert golden[:2] == [7042, 30] and len(golden) == len(margins) == 32
    assert len(answers.prefill_prompt()) == 512
