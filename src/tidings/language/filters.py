"""Filters: what a subscriber wants of an event, as text that means the same in a broker and in Spark.

`parse` reads the text; a `Filter` gives its verdict on an event, its normal form as boxes, and its canonical
text. `language.covering` compares filters with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tidings.errors import FilterTooCostly
from tidings.language.fields import TOPIC, Field, Path, Type
from tidings.language.grammar import read
from tidings.language.like import pieces, searched
from tidings.language.limits import DEFAULT, Limits, Steps
from tidings.language.normal import Conjunction, normal
from tidings.language.regions import Box, Unknown, holds
from tidings.language.tree import And, Node, Or, Pattern, Verdict, terms
from tidings.language.wording import filter_text

__all__ = ["Cost", "Filter", "Unknown", "check_told", "joined", "parse"]


TERM_STEPS = 8
"""What it takes to read one term of a normal form, beside its bounds and values."""


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

    searched: int
    """Characters that LIKE looks for, over all of them."""


class Filter:
    """One filter, understood. Filters are equal if their normal forms are.

    >>> parse("severity >= 3 AND NOT fire").evaluate({"severity": 4})
    >>> parse("severity >= 3 AND NOT fire").evaluate({"severity": 4, "fire": False})
    True
    """

    def __init__(
        self, source: str, tree: Node, disjuncts: tuple[Conjunction, ...], text: str = "", steps: int = 0
    ) -> None:
        self.source = source
        """The text as it was written."""
        self.tree = tree
        """Its terms as they were written."""
        self.disjuncts = disjuncts
        """Its normal form."""
        self.steps = steps
        """What it took to read it, see `limits.Steps`."""
        self._text = text

    def evaluate(self, event: Mapping[str, object]) -> Verdict:
        """SQL's verdict: True, False, or None for UNKNOWN."""
        return self.tree.verdict(event)

    def matches(self, event: Mapping[str, object], unknown: Unknown = Unknown.WAIT) -> bool:
        """Whether a subscriber gets the event."""
        verdict = self.tree.verdict(event)
        # By name, so that "assume" will do as well as Unknown.ASSUME.
        return Unknown(unknown) is Unknown.ASSUME if verdict is None else verdict

    def asking(self, unknown: Unknown) -> Callable[[Mapping[str, object]], bool]:
        """The quickest way to ask: in its normal form, or term by term.

        The normal form is as quick where it has as many constraints as there are terms. `x >= 1 AND x < 3 OR
        x >= 7 AND x < 9 OR …` has many terms, and is one set of values of one field; there it is ten times as
        quick.
        """
        boxes = self.boxes(unknown)
        if len(boxes) == 1 and len(boxes[0]) == 1:
            ((path, region),) = boxes[0]
            if len(path) == 1:
                name = path[0]
                return lambda event: event.get(name) in region
        if sum(len(box) for box in boxes) <= self.cost.terms:
            return lambda event: holds(boxes, event)
        return lambda event: self.matches(event, unknown)

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

    @property
    def text(self) -> str:
        """The canonical text, which parses back to an equal filter."""
        if not self._text:
            self._text = filter_text(self.disjuncts)
        return self._text

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The fields that it looks at, sorted."""
        return tuple(sorted(self.types))

    @cached_property
    def types(self) -> dict[Path, Type | None]:
        """The declared types of these fields; None for one that is not declared."""
        return {term.field.path: term.field.type for term in terms(self.tree)}

    @property
    def about_topic(self) -> bool:
        """Whether it asks for the topic itself."""
        # Most filters have no such sign, and are not taken apart for it.
        return "$" in self.source and any(path[0] == TOPIC for path in self.paths)

    @cached_property
    def cost(self) -> Cost:
        held = [constraint for one in self.disjuncts for _, constraint in one]
        return Cost(
            terms=sum(1 for _ in terms(self.tree)),
            disjuncts=len(self.disjuncts),
            constraints=len(held),
            points=sum(constraint.points for constraint in held),
            searched=sum(
                searched(pieces(like.pattern))
                for constraint in held
                for _, values in constraint.sets
                for like in values.likes
            ),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.disjuncts == other.disjuncts

    def __hash__(self) -> int:
        return hash(self.disjuncts)

    def __repr__(self) -> str:
        return f"Filter({self.source!r})"


def parse(
    text: str,
    fields: Mapping[Path, Field] | None = None,
    limits: Limits = DEFAULT,
    steps: Steps | None = None,
) -> Filter:
    """Read a filter text.

    With the declared `fields` of a topic, names and types are checked against them; without, a term is
    UNKNOWN of a value that is of another kind than its literal. Raises FilterError, which points at the
    place. `steps` counts the work where several filters share one bound.
    """
    steps = steps or Steps(limits.steps)
    before = steps.spent
    try:
        return _filter(text, read(text, fields, limits, steps), limits, steps, before)
    except FilterTooCostly as error:
        if error.text or len(text) > limits.text:
            raise
        raise FilterTooCostly(error.reason, text, 0, len(text)) from None


def joined(
    kind: type[And | Or], parts: Sequence[Filter], source: str = "", steps: Steps | None = None
) -> Filter:
    """All of some filters joined by AND or OR, under a text of its own if one is given.

    Raises FilterTooCostly.
    """
    steps = steps or Steps(DEFAULT.steps)
    before = steps.spent
    made = _filter(source, kind(tuple(part.tree for part in parts)), DEFAULT, steps, before)
    made.source = source or made.text
    return made


def _filter(source: str, tree: Node, limits: Limits, steps: Steps, before: int) -> Filter:
    _check_searched(sum(searched(term.parts) for term in terms(tree) if isinstance(term, Pattern)), limits)
    disjuncts, text = normal(tree, limits, steps)
    made = Filter(source, tree, disjuncts, text, steps.spent - before)
    check_told(made, limits)
    if len(text) > limits.text:
        raise FilterTooCostly(
            f"in normal form the filter has {len(text)} characters; the limit is {limits.text}; "
            "split it into several subscriptions"
        )
    return made


def check_told(made: Filter, limits: Limits = DEFAULT) -> None:
    """FilterTooCostly for what is too much in its normal form, which every broker that hears of it reads."""
    cost = made.cost
    _check_searched(cost.searched, limits)
    told = TERM_STEPS * cost.constraints + cost.points
    if told > limits.steps:
        raise FilterTooCostly(
            f"in normal form the filter has {cost.constraints} terms with {cost.points} bounds and values, "
            f"which take {told} steps to read; the limit is {limits.steps}; "
            "split it into several subscriptions"
        )


def _check_searched(count: int, limits: Limits) -> None:
    if count > limits.searched:
        raise FilterTooCostly(
            f"its LIKE patterns look for {count} characters (the longest part between two % of each); "
            f"the limit is {limits.searched}; use shorter ones, or several subscriptions"
        )


def _boxes(disjuncts: tuple[Conjunction, ...], unknown: Unknown) -> tuple[Box, ...]:
    found: dict[Box, None] = {}
    for one in disjuncts:
        regions = [(path, held.region(unknown)) for path, held in one]
        if not any(region.empty for _, region in regions):
            found[tuple((path, region) for path, region in regions if not region.full)] = None
    return tuple(found)
