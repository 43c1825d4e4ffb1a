"""Digests: what stays of an event that is open but may not be held any longer.

A hash for each field's value is enough to know a report that says nothing else. A report that does not fit
may be new or not (a smaller value of a `max` field, one within tolerance); it then opens a new event, so
nothing is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from tidings.gathering.rules import Rules

Hashes = dict[str, frozenset[bytes]]
"""By a field's label: the hash of its value, or of each of its values."""

HASH_BYTES = 16


def hashes_of(rules: Rules, fields: Mapping[str, Any]) -> Hashes:
    """What is kept of an event's fields."""
    return {
        rule.label: frozenset(map(_hash, value if rule.field.many else [value]))
        for rule, value in rules.leaves(fields)
    }


def known(rules: Rules, hashes: Hashes, fields: Mapping[str, Any]) -> bool:
    """Whether a report says nothing that is not in the event."""
    for rule, value in rules.leaves(fields):
        held = hashes.get(rule.label)
        if held is None or not all(_hash(one) in held for one in (value if rule.field.many else [value])):
            return False
    return True


def _hash(value: object) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(value), digest_size=HASH_BYTES).digest()
