"""The page in a real browser: every picture draws, nothing complains, nothing is wider than the screen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console import days
from tests.console.browser import Tab, find, tab
from tidings.console import page
from tidings.console.captions import CAPTIONS

pytestmark = pytest.mark.skipif(
    find() is None, reason="needs a Chromium, on the PATH or where TIDINGS_TEST_CHROMIUM says"
)

DECODED = """Promise.all([...document.images].map(image => image.decode().then(
    () => [image.closest('section').id, image.naturalWidth, image.currentSrc])))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Tab]:
    program = find()
    assert program is not None
    with tab(program) as opened:
        yield opened


def test_every_picture_draws_on_every_screen_and_nothing_complains(browser: Tab, written: Path) -> None:
    chosen = set()
    for width in (360, 1280):
        for dark in (False, True):
            browser.screen(width, 800, dark=dark)
            browser.open(written)
            drawn = browser.value(DECODED)
            assert [name for name, _, _ in drawn] == list(CAPTIONS)
            assert all(natural > 0 for _, natural, _ in drawn)
            chosen |= {source for _, _, source in drawn}
            # No sideways scrolling.
            assert browser.value("document.documentElement.scrollWidth") == width
            paper = browser.value("getComputedStyle(document.body).backgroundColor")
            assert paper == ("rgb(15, 20, 26)" if dark else "rgb(246, 244, 239)")
    assert len(chosen) == 4 * len(CAPTIONS)
    assert browser.complaints == []
    assert {url.partition(":")[0] for url in browser.requests} <= {"file", "data"}


@pytest.mark.slow
def test_names_that_are_too_long_do_not_widen_a_phone(browser: Tab, tmp_path: Path) -> None:
    browser.screen(360, 800, dark=False)
    browser.open(page.write(days.crowded(300), tmp_path))
    assert all(natural > 0 for _, natural, _ in browser.value(DECODED))
    assert browser.value("document.documentElement.scrollWidth") == 360
    assert browser.complaints == []
