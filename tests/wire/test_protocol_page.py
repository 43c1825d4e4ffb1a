"""docs/protocol.md names every message, with its tag and its fields."""

from __future__ import annotations

import re
from pathlib import Path

from tidings.wire.framing import FRAME_BYTES_MAX, GREETING_BYTES_MAX
from tidings.wire.messages import AnyMessage

ROW = re.compile(r"^\| (\d+) \| `(\w+)` \| (.*?) \|", re.MULTILINE)


def test_the_tables_are_those_of_the_code(root: Path) -> None:
    page = (root / "docs" / "protocol.md").read_text(encoding="utf-8")
    written = [(int(tag), name, re.findall(r"`(\w+)`", fields)) for tag, name, fields in ROW.findall(page)]
    assert written == [
        (kind.__struct_config__.tag, kind.__name__, list(kind.__struct_fields__))
        for kind in AnyMessage.__args__
    ]


def test_the_limits_are_those_of_the_code(root: Path) -> None:
    page = (root / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert f"at most {FRAME_BYTES_MAX >> 20} MiB" in page
    assert f"at most {GREETING_BYTES_MAX >> 10} KiB" in page
