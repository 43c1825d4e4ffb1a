"""docs/protocol.md names every message of peers, with its tag and its fields, and the fields of a profile."""

from __future__ import annotations

import re
from pathlib import Path

from tidings.peers.messages import AnyMessage, Profile

ROW = re.compile(r"^\| `(\w+)` \| (\d+) \| (.*?) \|", re.MULTILINE)


def test_the_table_is_that_of_the_code(root: Path) -> None:
    page = (root / "docs" / "protocol.md").read_text(encoding="utf-8")
    section = page.partition("\n## Peers\n")[2].partition("\n## ")[0]
    written = [(int(tag), name, re.findall(r"`(\w+)`", fields)) for name, tag, fields in ROW.findall(section)]
    assert written == [
        (kind.__struct_config__.tag, kind.__name__, list(kind.__struct_fields__))
        for kind in AnyMessage.__args__
    ]
    assert ", ".join(f"`{field}`" for field in Profile.__struct_fields__) in section
