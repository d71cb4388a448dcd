"""QuIP#'s codebooks against their definitions, written out point by point."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np

from fewbit.schemes.lattice.e8p import e8p, short

# |x|^2 = 12: twice the entries, as the codebook's authors list them.
FAR = (
    "31113333", "13113333", "11313333", "11133333", "33313311", "33313131", "33311331", "33313113", "33311313", "33311133",
    "33133311", "33133131", "33131331", "33133113", "33131313", "33131133", "31333311", "31333131", "31331331", "31333113",
    "31331313", "13331133", "13333311", "13333131", "13331331", "13333113", "13331313", "11331333", "33113331",
)  # fmt: skip


def near() -> list[tuple[float, ...]]:
    """Magnitudes of the points of D8 + 1/2 with |x|^2 <= 10: by how many entries are 3/2 and 5/2."""
    found = set()
    for threes in range(5):
        for places in combinations(range(8), threes):
            found.add(tuple(1.5 if i in places else 0.5 for i in range(8)))
    for five in range(8):
        found.add(tuple(2.5 if i == five else 0.5 for i in range(8)))
    for five, three in permutations(range(8), 2):
        found.add(tuple({five: 2.5, three: 1.5}.get(i, 0.5) for i in range(8)))
    return sorted(found)


def point(code: int, magnitudes: list[tuple[float, ...]]) -> list[float]:
    """Magnitudes from the high byte. Sign bit 0 is of entry 0, 1 of 2, 2 of 4, 3 of 6, 4 of 1, 5 of 3, 6 of 5, 7 of 7."""
    entries = list(magnitudes[code >> 8])
    if sum(entries) % 2:
        entries[7] *= -1
    odd = (code & 255).bit_count() % 2
    for bit, entry in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
        if (code ^ odd) >> bit & 1:
            entries[entry] *= -1
    return [x + (-0.25 if odd else 0.25) for x in entries]


def test_every_code_of_e8p() -> None:
    patterns = near() + [tuple(int(c) / 2 for c in row) for row in FAR]
    assert (len(near()), len(patterns), len(set(patterns))) == (227, 256, 256)
    assert all(sum(x * x for x in pattern) == 12 for pattern in patterns[227:])
    expected = np.array([point(code, patterns) for code in range(1 << 16)], np.float32)
    assert e8p().dtype == np.float32 and np.array_equal(e8p(), expected)


def test_e8p_is_what_is_near_in_the_lattice() -> None:
    """All points are different, and with the quarter taken away of D8 + 1/2; none with |x|^2 <= 10 is left out."""
    points = {tuple(p) for p in e8p().tolist()}
    assert len(points) == 1 << 16
    for shift in (-0.25, 0.25):
        half = [p - shift for p in e8p().astype(np.float64) if (p[0] - shift) % 1 == 0.5]
        assert len(half) == 1 << 15 and all(sum(p) % 2 == 0 and (p % 1 == 0.5).all() for p in half)
    for pattern in near()[:: 1 + 226 // 8]:
        for signs in product((1, -1), repeat=8):
            signed = [x * s for x, s in zip(pattern, signs)]
            if sum(signed) % 2 == 0:
                assert tuple(x + 0.25 for x in signed) in points and tuple(x - 0.25 for x in signed) in points


def test_every_code_of_the_short_codebook() -> None:
    """0 and the 240 shortest points of E8, in order, then two steps along an axis, all but the last."""
    whole = [[0.0] * 8]
    for (i, j), (a, b) in product(combinations(range(8), 2), product((1, -1), repeat=2)):
        whole.append([a if k == i else b if k == j else 0.0 for k in range(8)])
    half = [[s / 2 for s in signs] for signs in product((1, -1), repeat=8) if signs.count(-1) % 2 == 0]
    axes = [[2.0 * s if k == i else 0.0 for k in range(8)] for s in (1, -1) for i in range(8)][:15]
    assert (len(whole), len(half)) == (113, 128)
    assert np.array_equal(short(), np.array(sorted(whole) + sorted(half) + axes, np.float32))
