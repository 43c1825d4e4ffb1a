"""The normal form of a filter: a disjunction of conjunctions, each with one constraint per field.

AND and OR of SQL's three verdicts are minimum and maximum, so distributing one over the other, and NOT down
to the terms, keeps every verdict. What does not hold is that a term or its contrary is true: `x > 5 AND x <
3` is UNKNOWN of an event without x. So nothing is dropped here for being a contradiction or a tautology
unless all values, the missing one included, say so; `regions` keeps the books.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter, or_
from typing import TypeVar

from tidings.errors import FilterTooCostly
from tidings.language.fields import Path
from tidings.language.limits import Limits
from tidings.language.regions import Constraint, Region, Unknown, Values, tidied
from tidings.language.tree import Always, And, Node, Not, Or, constraint
from tidings.language.wording import conjunction_text

Conjunction = tuple[tuple[Path, Constraint], ...]
"""One constraint per field; by path. The empty one is true of every event."""


Part = TypeVar("Part")


def normal(node: Node, limits: Limits) -> tuple[Conjunction, ...]:
    """The conjunctions of a filter, none within another, in the order of their text."""
    found = _without_absorbed(_spread(node, False, limits))
    return tuple(found) if len(found) < 2 else tuple(sorted(found, key=conjunction_text))


def _spread(node: Node, negated: bool, limits: Limits) -> list[Conjunction]:
    """The conjunctions of a node or of its negation."""
    match node:
        case Not(part):
            return _spread(part, not negated, limits)
        case Always(holds):
            return [()] if holds is not negated else []
        case And(parts) | Or(parts):
            spread = [_spread(part, negated, limits) for part in parts]
            if isinstance(node, And) is negated:
                return _bounded(
                    _joined(_few_fields([one for many in spread for one in many], limits)), limits
                )
            # Parts without alternatives make one conjunction, however many; only the others multiply.
            product = _all_of([many[0] for many in spread if len(many) == 1])
            for many in (many for many in spread if len(many) != 1):
                # The raw size is what must be bounded; joining afterwards would come too late.
                if len(product) * len(many) > 4 * limits.disjuncts:
                    raise _too_many(limits)
                product = _bounded(
                    _joined([one for a in product for b in many for one in _all_of([a, b])]), limits
                )
            return product
        case _:
            return [((node.field.path, constraint(node, negated)),)]


def _few_fields(found: list[Conjunction], limits: Limits) -> list[Conjunction]:
    """Alternatives on so many fields can never become few enough, and joining them would take long."""
    if len({tuple(path for path, _ in one) for one in found}) > limits.disjuncts:
        raise _too_many(limits)
    return found


def _bounded(found: list[Conjunction], limits: Limits) -> list[Conjunction]:
    if len(found) > limits.disjuncts:
        raise _too_many(limits)
    return found


def _too_many(limits: Limits) -> FilterTooCostly:
    return FilterTooCostly(
        f"as a disjunction of conjunctions the filter has more than {limits.disjuncts} parts, "
        "which is the limit; subscribe to some of the alternatives separately"
    )


def _all_of(parts: list[Conjunction]) -> list[Conjunction]:
    """Conjunctions as one; none if that is false of every event."""
    gathered: dict[Path, list[Constraint | None]] = {}
    for part in parts:
        for path, held in part:
            gathered.setdefault(path, []).append(held)
    merged: list[tuple[Path, Constraint]] = []
    for path, constraints in sorted(gathered.items(), key=itemgetter(0)):
        both = _in_pairs(constraints, _both)
        if both is None:
            return []
        merged.append((path, both))
    return [tuple(merged)]


def _both(a: Constraint | None, b: Constraint | None) -> Constraint | None:
    return None if a is None or b is None else a & b


def _in_pairs(parts: Sequence[Part], join: Callable[[Part, Part], Part]) -> Part:
    """All parts as one; in pairs, because joining a thousand one by one would take a million steps."""
    while len(parts) > 1:
        halves = zip(parts[::2], parts[1::2], strict=False)
        parts = [*(join(a, b) for a, b in halves), *parts[len(parts) - len(parts) % 2 :]]
    return parts[0]


def _joined(found: list[Conjunction]) -> list[Conjunction]:
    """The same disjunction with those made one that differ in the values of one field only."""
    found = list(dict.fromkeys(found))
    changed = len(found) > 1
    while changed:
        changed = False
        # Only what several of them constrain can be joined, and the rest may be many fields.
        counts = Counter(path for one in found for path, _ in one)
        for path in sorted(path for path, count in counts.items() if count > 1):
            joined = _joined_on(path, found)
            if len(joined) < len(found):
                found, changed = joined, True
    return found


def _joined_on(path: Path, found: list[Conjunction]) -> list[Conjunction]:
    groups: dict[object, list[Conjunction]] = {}
    for place, one in enumerate(found):
        here = next((held for at, held in one if at == path), None)
        if here is None or len(here.sets) != 1 or here.sets[0][1].likes:
            # Intervals can be joined; patterns, and sets of several kinds, cannot.
            groups[place] = [one]
        else:
            rest = tuple(item for item in one if item[0] != path)
            groups.setdefault((rest, here.null, here.sets[0][0]), []).append(one)
    return list(dict.fromkeys(_union(path, group) for group in groups.values()))


def _union(path: Path, group: list[Conjunction]) -> Conjunction:
    if len(group) == 1:
        return group[0]
    first = dict(group[0])
    here = first[path]
    kind = here.sets[0][0]
    cuts = _in_pairs([dict(one)[path].sets[0][1].cuts for one in group], or_)
    joined = tidied(here.null, {kind: Values(cuts)}, here.declared)
    assert joined is not None, "a union holds what its parts hold"
    first[path] = joined
    return tuple(sorted(first.items(), key=itemgetter(0)))


def _without_absorbed(found: list[Conjunction]) -> list[Conjunction]:
    """Those that no other one makes needless."""
    if len(found) < 2:
        return found
    regions = {one: [_regions(one, unknown) for unknown in Unknown] for one in found}
    kept: list[Conjunction] = []
    for one in found:
        if not any(_within(regions[one], regions[other]) for other in kept):
            kept = [other for other in kept if not _within(regions[other], regions[one])]
            kept.append(one)
    return kept


Regions = dict[Path, Region] | None
"""The regions of a conjunction at one threshold; None if nothing is in it."""


def _regions(one: Conjunction, unknown: Unknown) -> Regions:
    regions = {path: held.region(unknown) for path, held in one}
    return None if any(region.empty for region in regions.values()) else regions


def _within(one: list[Regions], other: list[Regions]) -> bool:
    """Whether the verdict of one is nowhere above that of the other: at no threshold does it hold more."""
    for here, there in zip(one, other, strict=True):
        if here is None:
            continue
        if there is None or not here.keys() >= there.keys():
            return False
        if not all(here[path] <= region for path, region in there.items()):
            return False
    return True
