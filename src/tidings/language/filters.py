"""Filters: what a subscriber wants of an event, as text that means the same in a broker and in Spark.

`parse` reads the text; a `Filter` gives its verdict on an event, its normal form as boxes, and its canonical
text. `language.covering` compares filters with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tidings.errors import FilterTooCostly
from tidings.language.fields import Field, Path, Type
from tidings.language.grammar import read
from tidings.language.limits import DEFAULT, Limits
from tidings.language.normal import Conjunction, normal
from tidings.language.regions import Box, Unknown
from tidings.language.tree import Node, Or, Verdict, terms
from tidings.language.wording import filter_text

__all__ = ["Cost", "Filter", "Unknown", "either", "parse"]


@dataclass(frozen=True, slots=True)
class Cost:
    """How much work a filter makes."""

    terms: int
    """Terms as written."""

    disjuncts: int
    """Conjunctions in the normal form."""

    constraints: int
    """Constraints on fields, over all of them."""

    points: int
    """Bounds and listed values, over all of them."""


class Filter:
    """One filter, understood. Filters are equal if their normal forms are.

    >>> parse("severity >= 3 AND NOT fire").evaluate({"severity": 4})
    >>> parse("severity >= 3 AND NOT fire").evaluate({"severity": 4, "fire": False})
    True
    """

    def __init__(self, source: str, tree: Node, disjuncts: tuple[Conjunction, ...]) -> None:
        self.source = source
        """The text as it was written."""
        self.tree = tree
        """Its terms as they were written."""
        self.disjuncts = disjuncts
        """Its normal form."""

    def evaluate(self, event: Mapping[str, object]) -> Verdict:
        """SQL's verdict: True, False, or None for UNKNOWN."""
        return self.tree.verdict(event)

    def matches(self, event: Mapping[str, object], unknown: Unknown = Unknown.WAIT) -> bool:
        """Whether a subscriber gets the event."""
        verdict = self.tree.verdict(event)
        # By name, so that "assume" will do as well as Unknown.ASSUME.
        return Unknown(unknown) is Unknown.ASSUME if verdict is None else verdict

    def boxes(self, unknown: Unknown) -> tuple[Box, ...]:
        """The events that match, as a union of boxes; none where nothing can match."""
        if unknown is Unknown.WAIT:
            return self._waiting
        # By name, so that "wait" will do as well as Unknown.WAIT.
        return self._waiting if Unknown(unknown) is Unknown.WAIT else self._assuming

    @cached_property
    def _waiting(self) -> tuple[Box, ...]:
        return _boxes(self.disjuncts, Unknown.WAIT)

    @cached_property
    def _assuming(self) -> tuple[Box, ...]:
        return _boxes(self.disjuncts, Unknown.ASSUME)

    @cached_property
    def text(self) -> str:
        """The canonical text, which parses back to an equal filter."""
        return filter_text(self.disjuncts)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The fields that it looks at, sorted."""
        return tuple(sorted(self.types))

    @cached_property
    def types(self) -> dict[Path, Type | None]:
        """The declared types of these fields; None for one that is not declared."""
        return {term.field.path: term.field.type for term in terms(self.tree)}

    @cached_property
    def cost(self) -> Cost:
        held = [constraint for one in self.disjuncts for _, constraint in one]
        return Cost(
            terms=sum(1 for _ in terms(self.tree)),
            disjuncts=len(self.disjuncts),
            constraints=len(held),
            points=sum(len(values.cuts.points) for constraint in held for _, values in constraint.sets),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.disjuncts == other.disjuncts

    def __hash__(self) -> int:
        return hash(self.disjuncts)

    def __repr__(self) -> str:
        return f"Filter({self.source!r})"


def parse(text: str, fields: Mapping[Path, Field] | None = None, limits: Limits = DEFAULT) -> Filter:
    """Read a filter text.

    With the declared `fields` of a topic, names and types are checked against them; without, a term is
    UNKNOWN of a value that is of another kind than its literal. Raises FilterError, which points at the
    place.
    """
    tree = read(text, fields, limits)
    try:
        return _filter(text, tree, limits)
    except FilterTooCostly as error:
        raise FilterTooCostly(error.reason, text, 0, len(text)) from None


def either(a: Filter, b: Filter, limits: Limits = DEFAULT) -> Filter:
    """The filter `a OR b`; raises FilterTooCostly."""
    made = _filter("", Or((a.tree, b.tree)), limits)
    made.source = made.text
    return made


def _filter(source: str, tree: Node, limits: Limits) -> Filter:
    made = Filter(source, tree, normal(tree, limits))
    if made.cost.constraints > limits.terms:
        raise FilterTooCostly(
            f"in normal form the filter has {made.cost.constraints} terms; the limit is {limits.terms}; "
            "split it into several subscriptions"
        )
    if made.cost.points > limits.points:
        raise FilterTooCostly(
            f"in normal form the filter has {made.cost.points} bounds and values; "
            f"the limit is {limits.points}; split it into several subscriptions"
        )
    # Only a filter of many parts can be longer in normal form than the limit; the others need no text yet.
    if len(made.disjuncts) * max(len(source), 64) > limits.text // 4 and len(made.text) > limits.text:
        raise FilterTooCostly(
            f"in normal form the filter has {len(made.text)} characters; the limit is {limits.text}; "
            "split it into several subscriptions"
        )
    return made


def _boxes(disjuncts: tuple[Conjunction, ...], unknown: Unknown) -> tuple[Box, ...]:
    found: dict[Box, None] = {}
    for one in disjuncts:
        regions = [(path, held.region(unknown)) for path, held in one]
        if not any(region.empty for _, region in regions):
            found[tuple((path, region) for path, region in regions if not region.full)] = None
    return tuple(found)
