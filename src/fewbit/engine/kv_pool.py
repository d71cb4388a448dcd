"""Pages of the key-value cache and who owns them. Page 0 is scratch: padded rows write there, no sequence owns it."""

from __future__ import annotations

from collections.abc import Iterable

SCRATCH_PAGE = 0
FREE = -1
RESERVED = -2


class KvPool:
    """Hands out page numbers. It holds no memory: the cache itself lies with the runner."""

    def __init__(self, pages: int) -> None:
        if pages < 2:
            raise ValueError(f"a pool needs the scratch page and at least one other, got {pages} pages")
        self.pages = pages
        self._free = list(range(pages - 1, SCRATCH_PAGE, -1))  # a stack: the page freed last is warm in cache
        self._owner = [RESERVED] + [FREE] * (pages - 1)

    @property
    def free_pages(self) -> int:
        return len(self._free)

    @property
    def capacity_pages(self) -> int:
        """Pages that sequences can own."""
        return self.pages - 1

    def allocate(self, owner: int, count: int) -> list[int] | None:
        """`count` pages for a sequence, or None, and nothing changed, when there are not as many."""
        if count > len(self._free):
            return None
        taken = [self._free.pop() for _ in range(count)]
        for page in taken:
            self._owner[page] = owner
        return taken

    def release(self, owner: int, pages: Iterable[int]) -> None:
        """Take back pages of a sequence; an error if it does not own one of them."""
        for page in pages:
            if self._owner[page] != owner:
                raise AssertionError(f"page {page} belongs to {self._owner[page]}, not to {owner}")
            self._owner[page] = FREE
            self._free.append(page)

    def check(self, owned: dict[int, list[int]]) -> None:
        """Assert that every page is free or owned, once, by just the sequence that lists it."""
        assert self._owner[SCRATCH_PAGE] == RESERVED, "the scratch page was handed out"
        listed = [page for pages in owned.values() for page in pages]
        assert len(set(listed)) == len(listed), "a page is listed twice"
        assert len(set(self._free)) == len(self._free), "a page is free twice"
        for owner, pages in owned.items():
            wrong = [page for page in pages if self._owner[page] != owner]
            assert not wrong, f"pages {wrong} are listed by {owner} but owned by others"
        assert sorted(listed + self._free) == list(range(1, self.pages)), "a page was lost"
