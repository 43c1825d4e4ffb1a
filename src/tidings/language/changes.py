"""What a new declaration of a topic breaks for those who use the old one.

A change is compatible if whoever publishes and subscribes today can go on as before: a payload that is taken
stays taken, a filter goes on matching what it matched, an event stays the same event, and nothing that is
kept is thrown away. `breaks` lists what is not, all of it at once. Who decides whether it is done all the
same is not known here. docs/topics.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidings.language import durations
from tidings.language.fields import Field, Type, path_text
from tidings.language.topics import FOREVER, Gathering, Kind, Topic, UnknownFields

STRICTNESS = {UnknownFields.KEEP: 0, UnknownFields.DROP: 1, UnknownFields.REFUSE: 2}
"""Who takes fields that are not declared takes more than who drops them, and that more than who refuses."""


def same(one: Topic, other: Topic) -> bool:
    """Whether two declarations say the same, whatever their versions."""
    return _told(one) == _told(other)


def breaks(old: Topic, new: Topic) -> list[str]:
    """All that `new` breaks for those who use `old`; both are declarations of one name."""
    assert old.name == new.name, "declarations of two names say nothing about each other"
    return [*_broken(old, new)]


def removal_breaks(old: Topic) -> list[str]:
    """All that breaks where a topic is no longer declared: it is then plain, and its fields have no types."""
    found = []
    if old.kind is Kind.GATHERED:
        found.append("its reports would no longer be gathered: an undeclared topic is plain")
    lost = [path_text(path) for path, field in old.fields.items() if field.type is Type.TIMESTAMP]
    lost += [level for level in old.pattern.names if level not in lost]
    if lost:
        found.append(
            f"filters over {', '.join(lost)} would match no more: timestamps and levels of the topic's name "
            "are known by the declaration alone"
        )
    if old.keep_us is not None:
        found.append(f"what is kept for {_lasting(old.keep_us)} would be thrown away")
    return found


def _broken(old: Topic, new: Topic) -> Iterator[str]:
    if old.kind is not new.kind:
        yield f"kind: {old.kind.value} becomes {new.kind.value}, so that what is told changes altogether"
    yield from _broken_fields(old, new)
    if STRICTNESS[old.unknown_fields] < STRICTNESS[new.unknown_fields]:
        does = "refused" if new.unknown_fields is UnknownFields.REFUSE else "dropped"
        yield (
            f"unknown_fields: {old.unknown_fields.value} becomes {new.unknown_fields.value}, so that "
            f"fields which are not declared and were taken are {does}"
        )
    if old.root != new.root:
        yield f"root: {_shown(old.root)} becomes {_shown(new.root)}, so that the topic moves to another tree"
    if shorter(old.keep_us, new.keep_us):
        yield (
            f"keep: {_lasting(old.keep_us)} becomes {_lasting(new.keep_us)}, so that the rest is thrown away"
        )
    if old.gathering is not None and new.gathering is not None:
        yield from _broken_gathering(old.gathering, new.gathering)


def _broken_fields(old: Topic, new: Topic) -> Iterator[str]:
    for path, field in old.fields.items():
        name = path_text(path)
        if path not in new.fields:
            yield f"{name}: the field is gone, so that payloads and filters with it fail"
            continue
        yield from _broken_field(name, field, new.fields[path])
    for path, field in new.fields.items():
        if path not in old.fields and old.unknown_fields is not UnknownFields.REFUSE:
            # Where other fields are refused nobody can have sent it; else anything may have been sent.
            yield (
                f"{path_text(path)}: the field is new and must be {field.type.value}, but "
                f"unknown_fields = '{old.unknown_fields.value}' has taken anything by that name"
            )


def _broken_field(name: str, old: Field, new: Field) -> Iterator[str]:
    if old.type is not new.type:
        yield f"{name}: {old.type.value} becomes {new.type.value}, so that payloads and filters fail"
    if old.many != new.many:
        was, will = ("a list", "one value") if old.many else ("one value", "a list")
        yield (
            f"{name}: conflict = '{old.conflict.value}' becomes '{new.conflict.value}', so that {was} "
            f"becomes {will}"
        )


def _broken_gathering(old: Gathering, new: Gathering) -> Iterator[str]:
    was, will = ([item.text for item in gathering.key] for gathering in (old, new))
    if was != will:
        yield f"key: {', '.join(was)} becomes {', '.join(will)}, so that reports are of other events"
    if old.seats != new.seats:
        yield (
            f"seats: {old.seats} becomes {new.seats}, so that keys move to other seats, and an event that is "
            "open there begins anew"
        )
    if old.encoding is not new.encoding:
        yield (
            f"encoding: {old.encoding.value} becomes {new.encoding.value}, which those who read the one "
            "may not be able to read"
        )
    if shorter(old.keep_reports_us, new.keep_reports_us):
        yield (
            f"keep_reports: {_lasting(old.keep_reports_us)} becomes {_lasting(new.keep_reports_us)}, so that "
            "the rest is thrown away"
        )


def shorter(old_us: float | None, new_us: float | None) -> bool:
    """Whether less is kept than before."""
    return (new_us or 0) < (old_us or 0)


def _told(topic: Topic) -> dict[str, object]:
    mapping = topic.to_mapping()
    del mapping["version"]
    return mapping


def _lasting(keep_us: float | None) -> str:
    if keep_us is None:
        return "nothing"
    return "forever" if keep_us == FOREVER else durations.text(int(keep_us))


def _shown(root: str | None) -> str:
    return "none" if root is None else repr(root)
