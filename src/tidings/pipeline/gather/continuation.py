"""Whether a stream may go on under a declaration that is not the one under which its state was written.

A change goes on if all that open events hold keeps its meaning, and no clock or rule by which they were
gathered is another. docs/pipeline.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidings.language.fields import path_text
from tidings.language.schemas import field_mapping
from tidings.language.topics import Gathering, Topic
from tidings.pipeline.gather import columnar

RULES = ("merge_after", "redundant_for", "window", "stays_open", "tell_first", "complete")
"""Options by which events are gathered, beside the key and the filters. Others are for brokers alone."""

TRAITS = ("type", "conflict", "tolerance")
"""What of a field its values are gathered by. Its domain is for event spaces alone."""

WAY_OUT = "give the declaration that it was begun under, or begin with another checkpoint"


def breaks(old: Topic, new: Topic) -> list[str]:
    """All that keeps a stream of `old` from going on under `new`, with the old and the new values."""
    if new.gathering is None:
        return ["kind was gathered and is plain"]
    assert old.gathering is not None, "a stream is of a gathered topic"
    found = [*_rules(old, new, old.gathering, new.gathering), *_fields(old, new)]
    if not found and columnar.unsaid(old) is None and (reason := columnar.unsaid(new)) is not None:
        found.append(f"the engine was kernel and is machine, because {reason}")
    return found


def _rules(old: Topic, new: Topic, was: Gathering, will: Gathering) -> Iterator[str]:
    yield from _changed("key", *(", ".join(item.text for item in one.key) for one in (was, will)))
    before, after = old.to_mapping(), new.to_mapping()
    for name in RULES:
        yield from _changed(name, before[name], after[name])
    # By their normal forms: another way to write the same changes nothing.
    for name, one, other in (
        ("ends_when", was.ends_when, will.ends_when),
        ("tell_now", was.tell_now, will.tell_now),
    ):
        if one != other:
            yield from _changed(name, one and one.source, other and other.source)


def _fields(old: Topic, new: Topic) -> Iterator[str]:
    for path, field in old.fields.items():
        name = path_text(path)
        if path not in new.fields:
            yield f"the field {name} ({field.type}) is gone"
            continue
        before, after = field_mapping(field), field_mapping(new.fields[path])
        for trait in TRAITS:
            yield from _changed(f"{trait} of {name}", before.get(trait), after.get(trait))


def _changed(name: str, before: object, after: object) -> Iterator[str]:
    if before != after:
        yield f"{name} was {_shown(before)} and is {_shown(after)}"


def _shown(value: object) -> str:
    return "none" if value is None else str(value)
