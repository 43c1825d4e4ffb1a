"""What may come from outside as a set of dz-expressions.

What such sets are, and what can be asked of them, is the business of `space.expressions`. Where an event or a
message is looked at, `str.startswith` is called with a whole set: it takes a tuple, and for the few members
that sets of peers have there is nothing quicker.
"""

from __future__ import annotations


def is_set(some: object, most: int, depth: int) -> bool:
    """Whether something is a canonical set of at most so many expressions.

    >>> is_set(("0", "110"), 8, 8), is_set(("0", "01"), 8, 8), is_set(("0x",), 8, 8)
    (True, False, False)
    """
    if type(some) is not tuple or len(some) > most:
        return False
    before: str | None = None
    for one in some:
        if type(one) is not str or len(one) > depth or one.strip("01"):
            return False
        # Between an expression and what it covers, or its other half, there is nothing in the order of texts
        # that it does not cover: to look at neighbours is enough.
        if before is not None and (
            one <= before or one.startswith(before) or one == before.removesuffix("0") + "1"
        ):
            return False
        before = one
    return True
