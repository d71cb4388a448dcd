"""Random numbers: a pure function of seed and position, well spread."""

import numpy as np

from fewbit.engine.uniform import choice_seed, mix64, stream, uniforms


def draw(seed: int, count: int, start: int = 0) -> np.ndarray:
    streams = np.full(count, stream(seed), np.uint64)
    return uniforms(streams, list(range(start, start + count)))


def test_values_are_pinned() -> None:
    assert draw(0, 3).tolist() == draw(0, 3).tolist()
    assert [mix64(value) for value in (0, 1)] == [0, 6238072747940578789]
    assert draw(42, 2).dtype == np.float32


def test_a_number_depends_on_seed_and_position_alone() -> None:
    whole = draw(7, 100)
    assert np.array_equal(whole[40:60], draw(7, 20, 40))
    mixed = uniforms(np.array([stream(1), stream(7)], np.uint64), [5, 40])
    assert mixed[1] == whole[40]


def test_few_and_many_agree() -> None:
    seeds = [0, 1, 2**64 - 1, 0x9E3779B97F4A7C15]
    streams = np.array([stream(seed) for seed in seeds] * 5, np.uint64)
    positions = [0, 1, 2**20, 2**31] * 5
    few = np.concatenate([uniforms(streams[i : i + 4], positions[i : i + 4]) for i in range(0, 20, 4)])
    assert np.array_equal(uniforms(streams, positions), few)


def test_seeds_a_golden_ratio_apart_are_not_one_stream() -> None:
    golden = 0x9E3779B97F4A7C15
    assert not np.isin(draw(golden, 50), draw(0, 60)).any()


def test_spread() -> None:
    numbers = np.concatenate([draw(seed, 1000) for seed in range(100)])
    assert numbers.min() >= 0 and numbers.max() < 1
    counts = np.histogram(numbers, bins=64, range=(0, 1))[0]
    expected = len(numbers) / 64
    assert ((counts - expected) ** 2 / expected).sum() < 120  # chi-square, 63 degrees: p < 1e-5
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.01


def test_choices_have_seeds_of_their_own() -> None:
    assert choice_seed(5, 0) == 5
    assert len({choice_seed(seed, choice) for seed in range(50) for choice in range(16)}) == 800
