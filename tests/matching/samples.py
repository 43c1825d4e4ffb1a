"""Filters and events of all sorts for matching: those of the language's tests, and long strings that begin
alike.
"""

from __future__ import annotations

import random
from typing import Any

from tests.language.samples import FIELDS, some_event, some_filter
from tidings.errors import FilterError
from tidings.language.filters import Filter, parse

URLS = [
    "https://example.org/",
    "https://example.org/a",
    "https://example.org/a/b",
    "https://example.org/a/b/c and then well beyond forty characters",
    "https://example.org/b",
    "https://exam",
    "https://example.org/é",
]


def some_parsed(rng: random.Random, declared: bool) -> Filter:
    """A filter over the sample fields, which a topic declares or not."""
    while True:
        text = some_filter(rng, depth=rng.randint(0, 2))
        roll = rng.random()
        if not declared and roll < 0.3:
            url = rng.choice(URLS)
            sign = rng.choice(["AND", "OR"])
            term = rng.choice(
                [
                    f"LIKE '{url}%'",
                    f"NOT LIKE '{url}%'",
                    f"BETWEEN '{url}' AND '{url}c'",
                    f"IN ('{url}', '{URLS[0]}')",
                ]
            )
            text = f"({text}) {sign} url {term}"
        try:
            return parse(text, FIELDS if declared else None)
        except FilterError:
            # Some literals need a declared field; others make the normal form too long.
            continue


def some_values(rng: random.Random, declared: bool) -> dict[str, Any]:
    """An event; of a topic that does not declare its fields, with values of any kind."""
    event: dict[str, Any] = some_event(rng, mixed=not declared)
    if not declared and rng.random() < 0.7:
        event["url"] = rng.choice([*URLS, rng.choice(URLS) + "x", 5])
    return event
