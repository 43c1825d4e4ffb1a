"""Figures and names in words that a person reads: pure functions from values to text.

What a text means, and where it is shown, is not known here. Whatever comes from outside is cleaned of what
cannot be shown before it is drawn; escaping for HTML is the page's own.
"""

from __future__ import annotations

import math

UNSEEN = "�"
"""Stands for what cannot be shown."""


def clean(text: str) -> str:
    r"""A text in one line, without what neither a page nor a picture can hold.

    >>> clean("fire\nin lane\x002")
    'fire in lane�2'
    """
    return "".join(c if c.isprintable() else " " if c.isspace() else UNSEEN for c in text)


def count(number: int) -> str:
    """A number with its thousands apart."""
    return f"{number:,}"


def counted(number: int, one: str, many: str = "") -> str:
    """So many things.

    >>> counted(1, "report"), counted(1200, "report"), counted(0, "delivery", "deliveries")
    ('1 report', '1,200 reports', '0 deliveries')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def brief(number: float) -> str:
    """A number where there is little room.

    >>> [brief(n) for n in (0, 7, 999, 1234, 81_400, 3_761_000, 2e13)]
    ['0', '7', '999', '1.2k', '81k', '3.8M', '20,000G']
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            value = number / size
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:,.0f}{unit}"
    return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


def percent(part: float, whole: float) -> str:
    """A share; nothing but all is 100 %, and nothing but nothing is 0 %.

    >>> percent(1, 2), percent(1, 1000), percent(999, 1000), percent(0, 0)
    ('50 %', 'under 1 %', 'over 99 %', '0 %')
    """
    if whole <= 0 or part <= 0:
        return "0 %"
    share = 100.0 * part / whole
    if share < 1:
        return "under 1 %"
    if 99 < share < 100:
        return "over 99 %"
    return f"{share:.0f} %"


def times(ratio: float) -> str:
    """How many times as much.

    >>> times(3.04), times(41.7), times(0.5)
    ('3.0 times', '42 times', '0.5 times')
    """
    return f"{ratio:.1f} times" if ratio < 9.95 else f"{ratio:,.0f} times"


def size(amount: float) -> str:
    """Bytes.

    >>> size(950), size(12_400_000)
    ('950 B', '12 MB')
    """
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if amount >= scale:
            value = amount / scale
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:,.0f} {unit}"
    return f"{amount:.0f} B"


def duration(seconds: float) -> str:
    """Seconds, in the units in which people say them.

    >>> duration(0.004), duration(3.21), duration(96.9), duration(7_500)
    ('4 ms', '3.2 s', '1 min 37 s', '2 h 5 min')
    """
    if seconds <= 0:
        return "0 s"
    if seconds < 0.00095:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.995:
        return (
            f"{seconds * 1000:.0f} ms" if seconds >= 0.00995 else f"{seconds * 1000:.1f} ms".replace(".0", "")
        )
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def clock(seconds: float) -> str:
    """Hours and minutes since a day began.

    >>> clock(0), clock(59_400)
    ('0:00', '16:30')
    """
    minutes = math.floor(seconds / 60 + 1e-9)
    return f"{minutes // 60}:{minutes % 60:02d}"


def listed(names: list[str]) -> str:
    """Names one after the other.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def clipped(text: str, length: int) -> str:
    """A text that is no longer than so many characters: what is cut out of its middle is shown as cut.

    >>> clipped("traffic/athens/omonia", 12)
    'traffic…onia'
    """
    text = clean(text)
    if len(text) <= length:
        return text
    head = (length - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"
