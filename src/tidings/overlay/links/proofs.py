"""Proofs that somebody knows the cluster token, made for one purpose each.

A proof is an HMAC over what it is for and all that identifies the occasion, each part with its length, so
that no proof can be taken for another: not that of a dialler for that of a listener, not that of one
connection for that of the next. It does not hide anything; over a line that others can change, use TLS.
"""

from __future__ import annotations

import hashlib
import hmac

NONCE_BYTES_MAX = 64
"""Longer ones are refused."""


def proof(token: str, purpose: str, *parts: bytes | str) -> bytes:
    """What only those who know the token can say; empty where there is none.

    >>> proof("secret", "link", b"ab", "c") == proof("secret", "link", b"a", "bc")
    False
    """
    if not token:
        return b""
    told = hmac.new(token.encode(), digestmod=hashlib.sha256)
    for part in (purpose, *parts):
        data = part.encode() if isinstance(part, str) else part
        told.update(len(data).to_bytes(4, "big") + data)
    return told.digest()
