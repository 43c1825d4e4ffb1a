"""The page: whole, valid, escaped, self-contained, for every look; without a browser."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.console import days
from tidings.console import page, totals
from tidings.console.captions import CAPTIONS
from tidings.console.day import Check, Day, Happening, Life
from tidings.console.looks import LOOKS, WIDE

VOID = {"meta", "link", "img", "source", "br", "hr"}
PNG = b"\x89PNG\r\n\x1a\n"
HOSTILE = '<script>alert("x")</script>&\x00\n'
SVG = '<svg viewBox="0 0 66 30" xmlns="http://www.w3.org/2000/svg"></svg>'
BLANK = {name: dict.fromkeys(LOOKS, SVG) for name in CAPTIONS}
"""Pictures for tests of words."""


class Reader(HTMLParser):
    """Every tag with its attributes, all text, and what was closed in the wrong order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    def attributes(self, tag: str, name: str) -> list[str]:
        return [
            attributes[name] or "" for found, attributes in self.tags if found == tag and name in attributes
        ]

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


@pytest.fixture(scope="module")
def read(written: Path) -> Reader:
    return Reader(written.read_text(encoding="utf-8"))


def pictures(read: Reader) -> list[ElementTree.Element]:
    """Every drawing in a page."""
    data = read.attributes("source", "srcset") + read.attributes("img", "src")
    return [
        ElementTree.fromstring(
            base64.b64decode(text.removeprefix("data:image/svg+xml;base64,"), validate=True)
        )
        for text in data
    ]


def test_every_tag_is_closed_in_its_order(read: Reader) -> None:
    assert (read.wrong, read.open) == ([], [])


def test_every_picture_is_there_for_every_look_and_as_png(written: Path, read: Reader) -> None:
    assert len(pictures(read)) == len(CAPTIONS) * len(LOOKS)
    assert len(set(read.attributes("source", "srcset"))) == len(CAPTIONS) * 3
    assert sorted(file.name for file in written.parent.iterdir()) == sorted(
        ["index.html", *(f"{name}.png" for name in CAPTIONS)]
    )
    for name in CAPTIONS:
        assert (written.parent / f"{name}.png").read_bytes().startswith(PNG)


def test_nothing_is_loaded_and_nothing_runs(written: Path, read: Reader) -> None:
    tags = {tag for tag, _ in read.tags}
    assert tags.isdisjoint({"script", "iframe", "object", "embed", "base", "form"})
    loaded = [
        value
        for tag, attributes in read.tags
        for name, value in attributes.items()
        if name in {"src", "srcset", "href"} and tag != "a"
    ]
    assert [value for value in loaded if value is None or not value.startswith("data:")] == []
    assert [name for _, attributes in read.tags for name in attributes if name.startswith("on")] == []
    assert (
        re.findall(
            r"(?:https?:)?//|@import|url\(", written.read_text(encoding="utf-8").partition("</style>")[0]
        )
        == []
    )
    links = read.attributes("a", "href")
    assert [link for link in links if not (written.parent / link).is_file()] == []


def test_drawings_load_nothing_and_their_letters_are_the_pages(read: Reader) -> None:
    for drawing in pictures(read):
        for element in drawing.iter():
            links = [value for name, value in element.attrib.items() if name.endswith("href")]
            assert all(link.startswith("#") for link in links)
            if element.tag.endswith("}text"):
                assert "system-ui" in element.attrib["style"]
                assert "DejaVu" not in element.attrib["style"]


def test_the_page_is_small_enough_to_be_mailed(written: Path) -> None:
    assert written.stat().st_size < 1_500_000


def test_the_same_day_gives_the_same_bytes(read: Reader) -> None:
    from tidings.console.drawing import settled, svg
    from tidings.console.pictures import PICTURES

    with settled():
        again = [svg(draw(days.sample(), WIDE)).encode() for draw in PICTURES.values()]
    assert [base64.b64decode(source.partition(",")[2]) for source in read.attributes("img", "src")] == again


def test_pages_of_plans_are_named_where_there_are_some() -> None:
    day = days.sample()
    assert day.plans is not None
    assert "The plans in full" not in page.html(day, BLANK)
    named = replace(day, plans=replace(day.plans, pages=(("<moves>", "my moves.html"),)))
    assert '<a href="my%20moves.html">&lt;moves&gt;</a>' in page.html(named, BLANK)


def test_versions_told_at_one_moment_are_named_together() -> None:
    from tidings.console.drawing import settled, svg
    from tidings.console.pictures.life import life

    told = [
        Happening(at_s, "version", "b1", str(n), (("a", str(n)),), n) for n, at_s in ((1, 3), (2, 9), (3, 9))
    ]
    day = replace(
        days.sample(),
        life=Life("e", "roads", (), (Happening(0, "report", "r", "opened", (("a", "1"),)), *told)),
    )
    with settled():
        drawn = svg(life(day, WIDE))
    assert ">v1<" in drawn
    assert ">v2–3<" in drawn


def test_every_picture_has_an_alt_text_and_its_proportions(read: Reader) -> None:
    alts = read.attributes("img", "alt")
    assert len(alts) == len(CAPTIONS)
    assert [alt for alt in alts if len(alt) < 40] == []
    for tag, attributes in read.tags:
        if tag in {"img", "source"}:
            assert int(attributes["width"] or 0) > 0
            assert int(attributes["height"] or 0) > 0


def test_the_top_has_the_headline_figures() -> None:
    day = days.sample()
    text = Reader(page.html(day, BLANK)).text
    assert "9,403 reports in at 8 brokers" in text
    assert f"{totals.opened(day):,} events out told in {totals.versions(day):,} versions" in text
    saved = 81_400 - totals.delivered(day)
    assert f"{saved:,} messages saved {100 * saved / 81_400:.0f} % fewer than without gathering" in text
    assert "4 of 4 checks held" in text
    assert "8 brokers · 400 subscribers · 1,200 filters · 6 topics" in text


def test_checks_steps_and_notes_are_shown() -> None:
    day = days.sample()
    text = Reader(page.html(day, BLANK)).text
    for check in day.checks:
        assert check.name in text
        assert check.seen in text
    for step in day.steps:
        assert step.name in text
    assert "1 min 36 s" in text
    assert "In 7 steps and 3 min 53 s" in text
    assert day.notes[0] in text


def test_a_check_that_fails_is_not_overlooked() -> None:
    day = days.sample()
    text = page.html(replace(day, checks=(*day.checks, Check("order", "2 before 1", False))), BLANK)
    assert 'aria-label="does not hold"' in text
    read = Reader(text)
    assert "4 of 5 checks held" in read.text
    assert "1 check did not hold" in read.text
    assert {"class": "bad"} in [attributes for tag, attributes in read.tags if tag == "li"]


def test_every_text_of_the_day_is_escaped() -> None:
    day = hostile(days.sample())
    text = page.html(day, BLANK)
    assert "<script" not in text
    assert "\x00" not in text
    assert Reader(text).wrong == []
    assert text.count("&lt;script&gt;") > 30


def hostile(value: Any) -> Any:
    """The same value with something dangerous behind every text in it."""
    if isinstance(value, str):
        return (
            value
            if value in {"report", "version", "opened", "merged", "redundant", totals.OURS}
            else value + HOSTILE
        )
    if isinstance(value, tuple):
        return tuple(hostile(item) for item in value)
    if hasattr(value, "__dataclass_fields__"):
        return replace(value, **{name: hostile(getattr(value, name)) for name in value.__dataclass_fields__})
    return value


@pytest.mark.parametrize("day", [days.empty(), days.alone()], ids=["empty", "alone"])
def test_a_day_with_next_to_nothing_in_it_has_a_page(day: Day, tmp_path: Path) -> None:
    read = Reader(page.write(day, tmp_path).read_text(encoding="utf-8"))
    assert (read.wrong, read.open) == ([], [])
    assert len(pictures(read)) == len(CAPTIONS) * len(LOOKS)


@pytest.mark.slow
def test_a_day_that_is_far_too_large_has_a_page_of_bounded_size(tmp_path: Path) -> None:
    written = page.write(hostile(days.crowded()), tmp_path)
    read = Reader(written.read_text(encoding="utf-8"))
    assert (read.wrong, read.open) == ([], [])
    assert len(pictures(read)) == len(CAPTIONS) * len(LOOKS)
    assert "the 240 busiest of 3,000 brokers" in drawn_text(read)
    assert written.stat().st_size < 3_000_000


def drawn_text(read: Reader) -> str:
    return " ".join(text for drawing in pictures(read) for text in drawing.itertext())


def test_a_dollar_is_a_dollar_and_not_mathematics() -> None:
    from tidings.console.drawing import svg
    from tidings.console.pictures.suppression import suppression

    day = days.sample()
    named = replace(day, topics=tuple(replace(topic, name="a$x^2$b") for topic in day.topics))
    assert svg(suppression(named, WIDE)).count("a$x^2$b") >= len(day.topics)


def test_matplotlib_is_loaded_only_when_a_page_is_written() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "import sys, tidings.console.page; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert {"matplotlib", "numpy"}.isdisjoint(told.stdout.split())


def test_pictures_and_words_have_the_same_names() -> None:
    from tidings.console.pictures import PICTURES

    assert list(PICTURES) == list(CAPTIONS)
