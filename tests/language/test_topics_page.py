"""The page for users says what the code does."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

from tidings.language.declarations import parse_topic
from tidings.language.fields import Conflict, Type
from tidings.language.names import parse_pattern
from tidings.language.payloads import Encoding
from tidings.language.topics import (
    OPTIONS,
    BeforeSeat,
    Complete,
    Kind,
    OnTheWay,
    Overflow,
    Scope,
    StaysOpen,
    Strategy,
    TellFirst,
    UnknownFields,
)

PAGE = (Path(__file__).parents[2] / "docs" / "topics.md").read_text(encoding="utf-8")


def test_every_option_has_its_row_in_the_right_table() -> None:
    common, gathered = PAGE.split("These are for gathered topics only")
    for name, option in OPTIONS.items():
        assert f"\n| `{name}` |" in (gathered if option.gathered else common)
    assert len(re.findall(r"^\| `\w+` \| [^|]+ \| [^|]+ \| `[^|]+` \|$", PAGE, re.M)) == len(OPTIONS)


CHOICES = [
    Kind,
    UnknownFields,
    StaysOpen,
    TellFirst,
    Complete,
    Encoding,
    Conflict,
    Strategy,
    Scope,
    BeforeSeat,
    OnTheWay,
    Overflow,
]


@pytest.mark.parametrize("choices", CHOICES)
def test_every_choice_is_explained(choices: type[StrEnum]) -> None:
    assert [choice.value for choice in choices if f'`"{choice.value}"`' not in PAGE] == []


def test_every_type_has_its_row() -> None:
    assert [kind.value for kind in Type if f"\n| `{kind.value}` |" not in PAGE] == []


@pytest.mark.parametrize("text", re.findall(r"```toml\n(.*?)```", PAGE, re.S))
def test_every_example_is_a_declaration(text: str) -> None:
    parse_topic(text)


def test_the_order_of_declarations_is_as_shown() -> None:
    shown = re.search(r"for `fleet/v7/status` the order is (.*?)\. Two", PAGE, re.S)
    assert shown is not None
    texts = re.findall(r"`([^`]+)`", shown[1])
    assert len(texts) == 5
    assert sorted(texts, key=lambda text: parse_pattern(text).rank) == texts
