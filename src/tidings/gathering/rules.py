"""A declaration made ready for gathering: its fields as a tree of rules, its times, what joins must know.

Made once for each declaration. An event keeps the rules under which it was opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tidings.gathering.policies import RULES, Last, Majority, Rule
from tidings.language.reports import Shape
from tidings.language.topics import Complete, StaysOpen, Topic

Tree = dict[str, Any]
"""A rule for each field, a tree for each group."""


class Rules:
    """What the reports of one declaration become."""

    def __init__(self, topic: Topic) -> None:
        gathering = topic.gathering
        assert gathering is not None, f"{topic.name!r} is a plain topic; only a gathered one gathers"
        self.topic = topic
        self.gathering = gathering
        self.shape = Shape(topic)
        self.tree: Tree = {}
        self.fields: dict[str, Rule] = {}
        """The rule of each field, by label."""
        for field in topic.fields.values():
            rule = RULES[field.conflict](field)
            group = self.tree
            for name in field.path[:-1]:
                group = group.setdefault(name, {})
            group[field.path[-1]] = rule
            self.fields[rule.label] = rule
        self.flat = all(len(field.path) == 1 for field in topic.fields.values())
        self.total = len(self.fields)
        """How many fields a complete event has."""
        self.votes = [rule for rule in self.fields.values() if isinstance(rule, Majority)]
        self.thinned = [
            rule for rule in self.fields.values() if rule.field.many and rule.tolerance is not None
        ]
        """Fields that may have less after a first report than it brought."""
        self.renewed = any(rule.renewed for rule in self.fields.values())
        """Whether a report matters that only repeats what is known."""
        self.last = [rule for rule in self.fields.values() if isinstance(rule, Last)]
        self.last_names = frozenset(rule.path[0] for rule in self.last)
        self.key = tuple(item.text for item in gathering.key)
        self.quick = not self.renewed and gathering.stays_open is StaysOpen.MERGED
        """Whether nothing at all happens for a report that only repeats what is known."""
        self.complete_event = gathering.complete is Complete.EVENT
        self.complete_once = gathering.complete is Complete.ONCE
        self.complete_report = gathering.complete is Complete.REPORT
        self.first_us = self.later_us = gathering.merge_after_us
        """How long after its first report an event is first told; how long after a change, again."""
        self.digest = _digest(topic)
        """The same for declarations that say the same."""
        self.foreign: frozenset[str] = frozenset()
        """Fields of the declaration that holds now which this one, an earlier one, does not know."""

    def cycle(self, every_us: int | None) -> None:
        """Take the shortest cycle that anybody has asked for; None if nobody has."""
        merge_after_us = self.gathering.merge_after_us
        cycle_us = merge_after_us if every_us is None else max(every_us, self.gathering.every_min_us)
        self.first_us, self.later_us = min(merge_after_us, cycle_us), cycle_us

    def unknown_of(self, newer: Rules) -> frozenset[str]:
        """The fields of a newer declaration that cannot be put into an event of this one."""
        mine = {label: (rule.field.type, rule.field.many) for label, rule in self.fields.items()}
        return frozenset(
            label
            for label, rule in newer.fields.items()
            if mine.get(label) != (rule.field.type, rule.field.many)
        )

    def leaves(self, fields: Mapping[str, Any]) -> Iterator[tuple[Rule, Any]]:
        """The filled fields with their rules."""
        if self.flat:
            tree = self.tree
            return ((tree[name], value) for name, value in fields.items())
        return _leaves(self.tree, fields)

    def count(self, fields: Mapping[str, Any]) -> int:
        """How many fields are filled."""
        return len(fields) if self.flat else sum(1 for _ in _leaves(self.tree, fields))


def _leaves(tree: Tree, fields: Mapping[str, Any]) -> Iterator[tuple[Rule, Any]]:
    for name, value in fields.items():
        node = tree[name]
        if isinstance(node, dict):
            yield from _leaves(node, value)
        else:
            yield node, value


def _digest(topic: Topic) -> bytes:
    mapping = topic.to_mapping()
    del mapping["version"]
    return hashlib.blake2b(msgspec.msgpack.encode(mapping), digest_size=8).digest()
