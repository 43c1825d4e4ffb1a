"""How many files this process may have open: a connection is one of them."""

from __future__ import annotations

RESERVED = 256
"""For what is not a connection: the store, records, logs, pages, the loop's own."""


def raise_limit() -> int | None:
    """Raise the limit as far as the system allows; what it is then, None if nobody knows of one."""
    try:
        import resource
    except ImportError:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            # Some systems say that there is no limit, and have one.
            hard = soft
    return None if hard == resource.RLIM_INFINITY else hard


def room(limit: int | None, wanted: int, others: int) -> int:
    """How many of the connections that are wanted there is room for, beside others.

    >>> room(1024, 50_000, 512), room(None, 50_000, 512), room(100_000, 50_000, 512)
    (256, 50000, 50000)
    """
    return wanted if limit is None else min(wanted, max(16, limit - others - RESERVED))
