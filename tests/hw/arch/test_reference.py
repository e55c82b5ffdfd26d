"""The reference pages are what the definition says."""

from pathlib import Path

import pytest

from tokenpath.hw.arch.reference import PAGES

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name: str) -> None:
    remedy = "run python -m tokenpath.hw.arch.reference"
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), remedy
