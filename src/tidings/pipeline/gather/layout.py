"""A declaration as columns: what the tables of reports, of open entries and of what is told look like.

The leaves of the fields are columns `f0`, `f1`, … in declared order. Items of the key that are fields as they
are need no column of their own; the others are `k0`, `k1`, … by their place in the key. Nothing here knows
Spark, and nothing here gathers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from tidings.errors import InputError
from tidings.language.fields import Field, Path, Type, find, path_text
from tidings.language.keys import Bucket, Floor, Item, Whole
from tidings.language.payloads import INT_MAX, INT_MIN
from tidings.language.reports import Report
from tidings.language.topics import EVENT_BYTES_LIMIT, OPEN_LIMIT, Gathering, Topic

TYPES = {
    Type.STRING: pa.string(),
    Type.INT: pa.int64(),
    Type.FLOAT: pa.float64(),
    Type.BOOL: pa.bool_(),
    Type.TIMESTAMP: pa.timestamp("us", "UTC"),
}

TOLD, ENDED, CLOSED, REFUSED = "told", "ended", "closed", "refused"
"""What a row of the result is: a version, the last version of an event that has ended, the closing of an
event, or a report that could not be taken."""

NUMBERS = (
    "version",
    "merged",
    "untold",
    "redundant",
    "conflicts",
    "late",
    "merge_us",
    "redundant_us",
    "window_us",
)
"""What is held of an open entry beside its fields, its event and the time of its opening."""


class Layout:
    """The columns of one declaration."""

    def __init__(self, topic: Topic, *, text_ids: bool = False, by_topic: bool = False) -> None:
        """With `text_ids` reports are named by texts, else by whole numbers from 0 up.

        With `by_topic` reports of several topics that are declared alike come together, each with its name.
        """
        if topic.gathering is None:
            raise InputError(f"{topic.name!r} is a plain topic; only a gathered one gathers")
        self.topic = topic
        self.gathering: Gathering = topic.gathering
        self.text_ids = text_ids
        self.by_topic = by_topic
        self.fields: tuple[Field, ...] = tuple(topic.fields.values())
        self.places: Mapping[Path, int] = {field.path: place for place, field in enumerate(self.fields)}

    def __reduce__(self) -> tuple[Any, ...]:
        # A declaration travels as its mapping: filters and patterns are made anew where it arrives.
        return _restored, (self.topic.to_mapping(), self.text_ids, self.by_topic)

    @property
    def key(self) -> tuple[Item, ...]:
        """The items of the key."""
        return self.gathering.key

    @cached_property
    def id_type(self) -> pa.DataType:
        """What names a report."""
        return pa.string() if self.text_ids else pa.int64()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the fields."""
        return tuple(f"f{place}" for place in range(len(self.fields)))

    @cached_property
    def stored(self) -> Mapping[str, str]:
        """What the columns of the fields are called where they outlive the declaration: by paths."""
        return {
            name: f"fields.{path_text(field.path)}"
            for name, field in zip(self.names, self.fields, strict=True)
        }

    @cached_property
    def key_names(self) -> tuple[str, ...]:
        """The column of each item of the key, among the fields if it is one as it is."""
        return tuple(
            f"f{self.places[item.path]}" if isinstance(item, Whole) else f"k{place}"
            for place, item in enumerate(self.key)
        )

    @cached_property
    def computed(self) -> tuple[tuple[str, Item], ...]:
        """The items that have columns of their own."""
        return tuple(
            (f"k{place}", item) for place, item in enumerate(self.key) if not isinstance(item, Whole)
        )

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The columns that say which event a report is about."""
        return (("topic",) if self.by_topic else ()) + self.key_names

    @cached_property
    def rows(self) -> pa.Schema:
        """Reports."""
        columns = [("report", self.id_type), ("at", pa.int64())]
        columns += [("topic", pa.string())] if self.by_topic else []
        columns += [(name, _key_type(item, self)) for name, item in self.computed]
        columns += [(name, leaf_type(field)) for name, field in zip(self.names, self.fields, strict=True)]
        return pa.schema(columns)

    @cached_property
    def entries(self) -> pa.Schema:
        """Open entries: as reports, where `report` is the event and `at` the time of its opening."""
        return pa.schema([*self.rows, *(pa.field(name, pa.int64()) for name in NUMBERS)])

    @cached_property
    def told(self) -> pa.Schema:
        """The result: versions, closings and refused reports."""
        columns = [("state", pa.string()), ("at", pa.int64())]
        columns += [("topic", pa.string())] if self.by_topic else []
        columns += [
            ("event", self.id_type),
            ("key", pa.struct([(f"k{n}", _key_type(item, self)) for n, item in enumerate(self.key, 1)])),
            ("version", pa.int64()),
            ("reports", pa.int64()),
            ("complete", pa.bool_()),
            ("fields", _struct(self.tree)),
            ("opened_at", pa.int64()),
            ("closed_by", self.id_type),
            ("reason", pa.string()),
            ("redundant", pa.int64()),
            ("conflicts", pa.int64()),
            ("late", pa.int64()),
        ]
        return pa.schema(columns)

    @cached_property
    def tree(self) -> dict[str, Any]:
        """The fields nested as declared: the place of each."""
        tree: dict[str, Any] = {}
        for place, field in enumerate(self.fields):
            group = tree
            for name in field.path[:-1]:
                group = group.setdefault(name, {})
            group[field.path[-1]] = (place, leaf_type(field))
        return tree

    @cached_property
    def at_us_max(self) -> int:
        """The last time of a report of which all clocks can be said in 64 bits."""
        gathering = self.gathering
        return INT_MAX - max(gathering.redundant_for_us, gathering.merge_after_us, gathering.window_us or 0)

    @property
    def at_us_min(self) -> int:
        """The first time of a report; what is below is kept for "never"."""
        return INT_MIN + 1

    def table(self, reports: Iterable[Report]) -> pa.Table:
        """Reports that a `Shape` has taken, as a table."""
        taken = list(reports)
        columns: dict[str, list[Any]] = {
            "report": [one.id if self.text_ids else int(one.id) for one in taken],
            "at": [one.at_us for one in taken],
        }
        if self.by_topic:
            columns["topic"] = [one.topic for one in taken]
        for place, item in enumerate(self.key):
            if not isinstance(item, Whole):
                columns[f"k{place}"] = [one.key[place] for one in taken]
        for name, field in zip(self.names, self.fields, strict=True):
            columns[name] = [find(one.fields, field.path) for one in taken]
        return pa.table(columns, schema=self.rows)

    def nested(self, leaves: Sequence[pa.Array]) -> pa.StructArray:
        """The fields of versions, from their leaves; a group in which nothing is filled is null."""
        return _nest(self.tree, leaves, top=True)


def unbounded(topic: Topic) -> Topic:
    """The same topic without the limits of a seat's memory."""
    gathering = topic.gathering
    assert gathering is not None, f"{topic.name!r} is gathered"
    return replace(
        topic,
        gathering=replace(gathering, open_max=OPEN_LIMIT, event_bytes_max=EVENT_BYTES_LIMIT),
    )


def leaf_type(field: Field) -> pa.DataType:
    """What a column of a field holds."""
    return pa.list_(TYPES[field.type]) if field.many else TYPES[field.type]


def alike(topics: Sequence[Topic]) -> Topic:
    """The declaration that all of these share but for their names; InputError if they do not."""
    first, *others = topics
    want = first.to_mapping() | {"name": "", "version": 0}
    for other in others:
        said = other.to_mapping() | {"name": "", "version": 0}
        if said != want:
            differs = ", ".join(sorted(name for name in {*said, *want} if said.get(name) != want.get(name)))
            raise InputError(
                f"the topics {first.name!r} and {other.name!r} are declared differently ({differs}); gather "
                "them one after the other"
            )
    for topic in topics:
        if topic.pattern.text != topic.name or "+" in topic.name or "#" in topic.name:
            levels = ", ".join(path_text(path) for path in topic.fields)
            raise InputError(
                f"{topic.name!r} has wildcards; gather it alone, with its levels among the fields ({levels})"
            )
    return first


def _key_type(item: Item, layout: Layout) -> pa.DataType:
    if isinstance(item, Whole):
        return TYPES[layout.topic.fields[item.path].type]
    if isinstance(item, Floor):
        return pa.int64()
    return TYPES[Type.TIMESTAMP] if isinstance(item, Bucket) else pa.string()


def _struct(tree: Mapping[str, Any]) -> pa.StructType:
    return pa.struct(
        [(name, _struct(node) if isinstance(node, dict) else node[1]) for name, node in tree.items()]
    )


def _nest(tree: Mapping[str, Any], leaves: Sequence[pa.Array], *, top: bool) -> pa.StructArray:
    import pyarrow.compute as pc

    columns = [
        _nest(node, leaves, top=False) if isinstance(node, dict) else leaves[node[0]]
        for node in tree.values()
    ]
    mask = None
    if not top:
        mask = pc.is_null(columns[0])
        for column in columns[1:]:
            mask = pc.and_(mask, pc.is_null(column))
    return pa.StructArray.from_arrays(columns, fields=list(_struct(tree)), mask=mask)


def _restored(mapping: Mapping[str, object], text_ids: bool, by_topic: bool) -> Layout:
    return Layout(Topic.from_mapping(mapping), text_ids=text_ids, by_topic=by_topic)
