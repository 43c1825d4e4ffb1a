"""Conversations of peers as a person reads them: `conversations/*.txt`.

Above the line what happens: `degree N`; `publisher NAME DZ…`; `subscriber NAME DZ… bound N [allowed SHARE]`;
`cycles N`; `publish NAME NUMBER POINT`; `kill NAME`; `leave NAME`; `quiet`, which forgets what was said
so far. An expression `*` is the whole space. Below it what peers said about links and events since then, and
at the end the parents of each.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.peers.bench import Overlay
from tidings.peers.settings import DEFAULT

FILES = sorted((Path(__file__).parent / "conversations").glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_was_said_is_what_is_written(file: Path) -> None:
    script, _, written = file.read_text(encoding="utf-8").partition("----\n")
    assert played(script) == written


def played(script: str) -> str:
    overlay = Overlay()
    for step in script.splitlines():
        match step.split():
            case ["degree", count]:
                overlay.settings = replace(DEFAULT, out_degree=int(count))
            case ["publisher", name, *dz]:
                overlay.publisher(name, expressions(dz))
            case ["subscriber", name, *rest]:
                at = rest.index("bound")
                allowed = float(rest[at + 3]) if "allowed" in rest else 0.0
                overlay.subscriber(name, *expressions(rest[:at]), bound=float(rest[at + 1]), allowed=allowed)
            case ["cycles", count]:
                overlay.cycles(int(count))
            case ["publish", name, number, point]:
                overlay.publish(name, int(number), point)
            case ["kill", name]:
                overlay.kill(name)
            case ["leave", name]:
                overlay.leave(name)
            case ["quiet"]:
                overlay.said.clear()
            case ["#", *_]:
                continue
            case _:
                raise AssertionError(f"{step!r} is no step")
    parents = [f"{name} < {', '.join(above) or 'nobody'}" for name, above in overlay.tree().items()]
    return "\n".join([*overlay.said, *parents]) + "\n"


def expressions(words: list[str]) -> tuple[str, ...]:
    return tuple("" if word == "*" else word for word in words)
