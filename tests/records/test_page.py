"""docs/records.md says what records hold, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

from tidings.records.record import Kind
from tidings.records.schema import arrow_schema


def test_the_page_lists_every_field_with_its_type(root: Path) -> None:
    page = (root / "docs" / "records.md").read_text(encoding="utf-8")
    section = page.partition("## The fields")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE)
    assert listed == [
        (
            field.name,
            ("list of strings" if field.name == "receivers" else str(field.type))
            + (", may be null" if field.nullable else ""),
        )
        for field in arrow_schema()
    ]


def test_the_page_lists_every_kind(root: Path) -> None:
    page = (root / "docs" / "records.md").read_text(encoding="utf-8")
    section = page.partition("## The kinds")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([\w ]+)` \|", section, re.MULTILINE) == [kind.value for kind in Kind]
