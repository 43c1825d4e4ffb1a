"""The normal form of a filter: a disjunction of conjunctions, each with one constraint per field.

AND and OR of SQL's three verdicts are minimum and maximum, so distributing one over the other, and NOT down
to the terms, keeps every verdict. What does not hold is that a term or its contrary is true: `x > 5 AND x <
3` is UNKNOWN of an event without x. So nothing is dropped here for being a contradiction or a tautology
unless all values, the missing one included, say so; `regions` keeps the books.
"""

from __future__ import annotations

from tidings.errors import FilterTooCostly
from tidings.language.fields import Path
from tidings.language.limits import Limits
from tidings.language.regions import Constraint, Unknown, Values, tidied
from tidings.language.tree import Always, And, Node, Not, Or, constraint
from tidings.language.wording import conjunction_text

Conjunction = tuple[tuple[Path, Constraint], ...]
"""One constraint per field; by path. The empty one is true of every event."""


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
            product: list[Conjunction] = [()]
            for many in spread:
                # The raw size is what must be bounded; joining afterwards would come too late.
                if len(product) * len(many) > 4 * limits.disjuncts:
                    raise _too_many(limits)
                both = [_both(a, b) for a in product for b in many]
                product = _bounded(_joined([one for one in both if one is not None]), limits)
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


def _both(a: Conjunction, b: Conjunction) -> Conjunction | None:
    """Two conjunctions as one; None if that is false of every event."""
    merged = dict(a)
    for path, there in b:
        here = merged.get(path)
        both = there if here is None else here & there
        if both is None:
            return None
        merged[path] = both
    return tuple(sorted(merged.items()))


def _joined(found: list[Conjunction]) -> list[Conjunction]:
    """The same disjunction with those made one that differ in the values of one field only."""
    found = list(dict.fromkeys(found))
    changed = len(found) > 1
    while changed:
        changed = False
        for path in sorted({path for one in found for path, _ in one}):
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
    kind, values = here.sets[0]
    cuts = values.cuts
    for one in group[1:]:
        cuts |= dict(one)[path].sets[0][1].cuts
    joined = tidied(here.null, {kind: Values(cuts)}, here.declared)
    assert joined is not None, "a union holds what its parts hold"
    first[path] = joined
    return tuple(sorted(first.items()))


def _without_absorbed(found: list[Conjunction]) -> list[Conjunction]:
    """Those that no other one makes needless."""
    kept: list[Conjunction] = []
    for one in found:
        if not any(_within(one, other) for other in kept):
            kept = [other for other in kept if not _within(other, one)]
            kept.append(one)
    return kept


def _within(one: Conjunction, other: Conjunction) -> bool:
    """Whether the verdict of one is nowhere above that of the other."""
    here = dict(one)
    if any(path not in here for path, _ in other):
        return False
    for unknown in Unknown:
        if any(held.region(unknown).empty for held in here.values()):
            continue
        if not all(here[path].region(unknown) <= held.region(unknown) for path, held in other):
            return False
    return True
