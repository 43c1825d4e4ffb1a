"""Ids of brokers: what may be one, wherever it comes from."""

from __future__ import annotations

from collections.abc import Iterable

ID_LENGTH_MAX = 255
"""Characters."""

ID_RULE = f"1 to {ID_LENGTH_MAX} printable characters"
"""For people."""


def is_id(text: str) -> bool:
    r"""Whether a broker may be called so.

    >>> is_id("Athens/1"), is_id(""), is_id("two\nlines")
    (True, False, False)
    """
    return 0 < len(text) <= ID_LENGTH_MAX and text.isprintable()


def fault(named: Iterable[str]) -> str:
    """Why a message that names these brokers is nonsense; empty if it is not."""
    wrong = next((name for name in named if not is_id(name)), None)
    return f"{wrong!r:.80} is not the id of a broker: {ID_RULE}" if wrong is not None else ""
