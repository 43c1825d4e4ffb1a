"""Filter text to tree, by sqlglot's Spark dialect, keeping only what the filter language has.

sqlglot reads all of Spark SQL. What is let through here, and in `tokens` before it, is a short list; the rest
is refused by name, with its place. The rules for literals are those under which Spark, given the same text,
says the same of every row; where Spark's rule would surprise, the text is refused
(docs/design/0004-filters.md has the list and the reasons).

Most filters are plain, and `plain` reads these at a fifth of the cost; what it does not read comes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token

from tidings.errors import FilterError, FilterTooCostly
from tidings.language import plain
from tidings.language.fields import TOPIC, USER, Field, Path, Type, path_text
from tidings.language.like import BadPattern
from tidings.language.limits import Limits, Steps
from tidings.language.literals import Number, fitting, number, time
from tidings.language.regions import TYPES, Kind
from tidings.language.tokens import EXPECTED, SPARK, refusal, tokens_of
from tidings.language.tree import (
    Always,
    And,
    Comparison,
    Membership,
    Missing,
    Node,
    Not,
    Operand,
    Or,
    Pattern,
    like_parts,
)

RELATIONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("<>", "<>"),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}
"""Each relation, and the same seen from the other side."""

REFUSED: dict[type[exp.Expr], str] = {
    **dict.fromkeys(RELATIONS, "comparisons do not chain; join them with AND"),
    exp.Binary: "arithmetic is not part of the language; compare a field with a literal",
}
"""What people try, with the way out; anything else is refused as not part of the language."""


TOKEN_STEPS = 9
"""What sqlglot and all that is done here take for a word or sign."""


def read(text: str, fields: Mapping[Path, Field] | None, limits: Limits, steps: Steps) -> Node:
    """The tree of a filter text; raises FilterError."""
    if len(text) > limits.text:
        raise FilterTooCostly(
            f"the filter has {len(text)} characters; the limit is {limits.text}; "
            "split it into several subscriptions"
        )
    found, count = plain.read(text, fields, limits, steps)
    if found is not None:
        return found
    # A sign may be several tokens for sqlglot, never more than it has characters.
    steps.take(TOKEN_STEPS * count)
    return _Reader(text, fields, limits).read()


class _Reader:
    """One reading of one text."""

    def __init__(self, text: str, fields: Mapping[Path, Field] | None, limits: Limits) -> None:
        self.text = text
        self.fields = fields
        self.limits = limits
        self.patterns = 0

    def read(self) -> Node:
        tokens = tokens_of(self.text, self.limits)
        try:
            # As a condition, not as a statement, where a first word may be a command.
            (parsed,) = SPARK.parser().parse_into(exp.Condition, tokens, self.text)
        except ParseError as error:
            raise self._refusal_at(*self._place_of(error, tokens), self._expected(error)) from None
        except RecursionError:
            raise FilterTooCostly(
                f"the filter is nested too deeply; the limit is {self.limits.depth}", self.text
            ) from None
        if parsed is None:
            raise self._refusal_at(0, len(self.text), f"this is not a condition; {EXPECTED}")
        return self._node(parsed)

    # From sqlglot's tree to ours.

    def _node(self, node: exp.Expr) -> Node:
        match node:
            case exp.Paren():
                return self._node(node.this)
            case exp.And() | exp.Or():
                parts = tuple(self._node(part) for part in _chain(node))
                return And(parts) if isinstance(node, exp.And) else Or(parts)
            case exp.Not():
                return Not(self._node(node.this))
            case exp.Boolean():
                return Always(bool(node.this))
            case exp.Column() | exp.Dot():
                return self._bare(node)
            case exp.Between():
                return self._between(node)
            case exp.In():
                return self._in(node)
            case exp.Like() | exp.Escape():
                return self._like(node)
            case exp.Is():
                return self._is(node)
        if type(node) in RELATIONS:
            return self._comparison(node)
        raise self._refusal(node)

    def _bare(self, node: exp.Expr) -> Node:
        """A field by itself, which must be a bool."""
        field = self._field(node)
        if field.type not in (None, Type.BOOL):
            raise self._refusal(
                node, f"{_shown(field.path)} is {_a(field.type)}, not a condition; {EXPECTED}"
            )
        return Comparison(field, "=", Kind.BOOL, True)

    def _comparison(self, node: exp.Expr) -> Node:
        relation, mirrored = RELATIONS[type(node)]
        left, right = _plain(node.this), _plain(node.expression)
        if _is_field(left):
            return self._compare(left, relation, right)
        if _is_field(right):
            return self._compare(right, mirrored, left)
        for side in (left, right):
            if not _is_literal(side):
                raise self._refusal(side)
        raise self._refusal(node, "two literals; compare a field with a literal")

    def _compare(self, column: exp.Expr, relation: str, literal: exp.Expr) -> Comparison:
        field = self._field(column)
        if _is_field(literal):
            raise self._refusal(literal, "two fields; compare a field with a literal")
        kind, value = self._literal(field, literal, plain_time=True)
        return Comparison(field, relation, kind, value)

    def _between(self, node: exp.Between) -> Node:
        if not _is_field(_plain(node.this)):
            raise self._refusal(node.this, "BETWEEN is asked of a field")
        column = _plain(node.this)
        return And(
            (
                self._compare(column, ">=", _plain(node.args["low"])),
                self._compare(column, "<=", _plain(node.args["high"])),
            )
        )

    def _in(self, node: exp.In) -> Node:
        column = _plain(node.this)
        if not _is_field(column):
            raise self._refusal(node.this, "IN is asked of a field")
        if (
            node.args.get("query") is not None
            or node.args.get("unnest") is not None
            or node.args.get("field")
        ):
            raise self._refusal(node, "IN takes a list of literals in parentheses")
        listed = node.expressions
        if not listed:
            raise self._refusal(node, "IN needs at least one literal")
        if len(listed) > self.limits.listed:
            raise FilterTooCostly(
                f"the IN list has {len(listed)} values; the limit is {self.limits.listed}",
                self.text,
                *self._span(listed[self.limits.listed]),
            )
        field = self._field(column)
        read = [self._literal(field, _plain(one), plain_time=False) for one in listed]
        kinds = {kind for kind, _ in read}
        if len(kinds) > 1:
            raise self._refusal(node, "the literals of an IN list are of one kind; use OR for several")
        if Kind.NUMBER in kinds and field.type is not Type.FLOAT and len(listed) > 1:
            with_exponent = [one for one in listed if self._number(_plain(one)).double]
            if with_exponent and (len(with_exponent) < len(listed) or field.type is Type.INT):
                # One of them makes Spark compare the whole list as DOUBLE, where large ints are equal.
                raise self._refusal(
                    with_exponent[0], "beside others in an IN list, write numbers without exponent"
                )
        return Membership(field, kinds.pop(), tuple(sorted({value for _, value in read})))

    def _like(self, node: exp.Expr) -> Node:
        escape = "\\"
        like = node
        if isinstance(node, exp.Escape):
            like, given = node.this, node.expression
            if not isinstance(given, exp.Literal) or not given.is_string or len(given.this) != 1:
                raise self._refusal(given, "ESCAPE takes one character in quotes")
            escape = given.this
            if escape in "%_" or escape > "\uffff":
                raise self._refusal(
                    given, "% and _ are what is escaped, and Spark takes what is beyond U+FFFF for two"
                )
        if not isinstance(like, exp.Like):
            raise self._refusal(node)
        column, pattern = _plain(like.this), _plain(like.expression)
        if not _is_field(column):
            raise self._refusal(like.this, "LIKE is asked of a field")
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            raise self._refusal(pattern, "LIKE takes one pattern in quotes")
        field = self._field(column)
        if field.type not in (None, Type.STRING):
            raise self._refusal(column, f"{_shown(field.path)} is {_a(field.type)}; LIKE is for strings")
        self.patterns += 1
        if self.patterns > self.limits.patterns:
            raise FilterTooCostly(
                f"the filter has more than {self.limits.patterns} LIKE patterns, which is the limit",
                self.text,
                *self._span(pattern),
            )
        if len(pattern.this) > self.limits.pattern:
            raise FilterTooCostly(
                f"the pattern has {len(pattern.this)} characters; the limit is {self.limits.pattern}",
                self.text,
                *self._span(pattern),
            )
        try:
            term = Pattern(field, like_parts(pattern.this, escape))
        except BadPattern as error:
            raise self._refusal(pattern, f"in this pattern {error}") from None
        return Not(term) if like.args.get("negate") else term

    def _is(self, node: exp.Is) -> Node:
        column = _plain(node.this)
        if not isinstance(node.expression, exp.Null):
            raise self._refusal(node, "IS takes NULL or NOT NULL; write fire or NOT fire for a bool")
        if not _is_field(column):
            raise self._refusal(node.this, "IS NULL is asked of a field")
        field = self._field(column, null_only=True)
        return Missing(field)

    # Fields.

    def _field(self, node: exp.Expr, null_only: bool = False) -> Operand:
        names = _names(node)
        if names is None:
            raise self._refusal(node)
        path = tuple(name.this for name in names)
        if len(path) > self.limits.path:
            raise FilterTooCostly(
                f"the field has {len(path)} names; the limit is {self.limits.path}",
                self.text,
                *self._span(node),
            )
        if path[0] in (TOPIC, USER):
            return self._own(node, path)
        if self.fields is None:
            return Operand(path, None)
        field = self.fields.get(path)
        if field is None:
            raise self._refusal(node, self._undeclared(path, self.fields))
        if field.many:
            # The value is a list, of which the language can say nothing but whether it is there.
            if not null_only:
                raise self._refusal(
                    node,
                    f"{_shown(path)} holds a list (conflict = union); only IS [NOT] NULL can be asked",
                )
            return Operand(path, None)
        return Operand(path, field.type)

    def _own(self, node: exp.Expr, path: Path) -> Operand:
        """Of the publication itself: a string on every topic, declared or not."""
        if path[0] == TOPIC and len(path) > 1:
            raise self._refusal(node, f"{TOPIC} is the name of the topic, a string; it has no fields")
        if path[0] == USER and len(path) != 2:
            raise self._refusal(
                node, f"a user property is written {USER}.name, or {USER}.`the name` if that is not one word"
            )
        return Operand(path, Type.STRING)

    def _undeclared(self, path: Path, fields: Mapping[Path, Field]) -> str:
        members = [_shown(known) for known in fields if known[: len(path)] == path]
        if members:
            return f"{_shown(path)} is an object; its fields: {', '.join(members[:8])}"
        asked = _shown(path)
        declared = [_shown(known) for known in fields]
        # Names are case sensitive, which is worth a guess of its own: difflib finds SEVERITY unlike severity.
        near = [name for name in declared if name.lower() == asked.lower()]
        near += [name for name in get_close_matches(asked, declared, n=3, cutoff=0.5) if name not in near]
        if near:
            return f"the topic declares no field {asked}; nearest: {', '.join(near)}"
        return f"the topic declares no field {asked}; declared: {', '.join(declared[:8])}"

    # Literals, as the axis of their field wants them.

    def _literal(self, field: Operand, node: exp.Expr, plain_time: bool) -> tuple[Kind, Any]:
        """`plain_time`: whether a plain string may stand for a timestamp, as Spark allows in comparisons.

        Not in IN lists, where Spark without ANSI mode compares such values as strings.
        """
        kind, value = self._value(node)
        if field.type is Type.TIMESTAMP and kind is Kind.STRING and plain_time:
            kind, value = Kind.TIMESTAMP, self._time(node, value)
        if field.type is not None and kind is not TYPES[field.type]:
            way_out = ", written TIMESTAMP '2026-11-01 00:00:00'" if field.type is Type.TIMESTAMP else ""
            raise self._refusal(
                node,
                f"{_shown(field.path)} is {_a(field.type)}; expected {_a(field.type)} literal{way_out}",
            )
        if isinstance(value, Number):
            return kind, self._fitting(field, node, value)
        return kind, value

    def _value(self, node: exp.Expr) -> tuple[Kind, Any]:
        match node:
            case exp.Literal() if node.is_string:
                return Kind.STRING, node.this
            case exp.Literal() | exp.Neg():
                return Kind.NUMBER, self._number(node)
            case exp.Boolean():
                return Kind.BOOL, bool(node.this)
            case exp.Null():
                raise self._refusal(
                    node, "a comparison with NULL is never true; write IS NULL or IS NOT NULL"
                )
            case exp.Cast() if not isinstance(node, exp.TryCast) and isinstance(node.this, exp.Literal):
                if node.to.this in (exp.DType.TIMESTAMPTZ, exp.DType.DATE) and node.this.is_string:
                    return Kind.TIMESTAMP, self._time(
                        node.this, node.this.this, node.to.this is exp.DType.DATE
                    )
        raise self._refusal(node)

    def _number(self, node: exp.Expr) -> Number:
        sign = ""
        while isinstance(node, exp.Neg):
            sign, node = "" if sign else "-", _plain(node.this)
        if not isinstance(node, exp.Literal) or node.is_string:
            raise self._refusal(node)
        try:
            return number(sign + node.this)
        except ValueError as error:
            raise self._refusal(node, str(error)) from None

    def _fitting(self, field: Operand, node: exp.Expr, value: Number) -> int | Decimal | float:
        try:
            return fitting(field.type, value)
        except ValueError as error:
            raise self._refusal(node, str(error)) from None

    def _time(self, node: exp.Expr, written: str, date: bool = False) -> int:
        try:
            return time(written, date)
        except ValueError as error:
            raise self._refusal(node, str(error)) from None

    # Refusals and their places.

    def _refusal(self, node: exp.Expr, reason: str | None = None) -> FilterError:
        if reason is None:
            known = [why for kind, why in REFUSED.items() if isinstance(node, kind)]
            reason = known[0] if known else f"this is not part of the language; {EXPECTED}"
        return self._refusal_at(*self._span(node), reason)

    def _refusal_at(self, start: int, end: int, reason: str) -> FilterError:
        return refusal(self.text, start, end, reason)

    def _span(self, node: exp.Expr) -> tuple[int, int]:
        """Where a node stands: from the first to the last of its names and literals."""
        spots = [(part.meta["start"], part.meta["end"] + 1) for part in node.walk() if "start" in part.meta]
        if not spots:
            return 0, len(self.text)
        return min(start for start, _ in spots), max(end for _, end in spots)

    def _place_of(self, error: ParseError, tokens: list[Token]) -> tuple[int, int]:
        """Where the parser stopped, or where it missed something."""
        found = error.errors[0] if error.errors else {}
        at = len(tokens) - 1
        for place, token in enumerate(tokens):
            if token.line == found.get("line") and token.col == found.get("col"):
                at = place
        missing = str(found.get("description", ""))
        if missing.startswith("Required keyword: 'this'") and at > 0:
            at -= 1
        elif missing.startswith("Required keyword: 'expression'") and at == len(tokens) - 1:
            return tokens[at].end + 1, tokens[at].end + 2
        return tokens[at].start, tokens[at].end + 1

    def _expected(self, error: ParseError) -> str:
        description = str(error.errors[0].get("description", "")) if error.errors else ""
        if description.startswith("Expecting"):
            return f"{description[0].lower()}{description[1:]}"
        return f"the filter cannot be read here; {EXPECTED}"


def _shown(path: Path) -> str:
    """A field in a reason, which must stay short enough for a SUBACK."""
    text = path_text(path)
    return text if len(text) <= 64 else f"{text[:63]}…"


def _a(kind: Type | None) -> str:
    return f"an {kind}" if kind is Type.INT else f"a {kind}"


def _plain(node: exp.Expr) -> exp.Expr:
    """What parentheses hold."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """The parts of `a AND b AND c`, which the parser nests to the left as deep as there are parts."""
    kind = type(node)
    parts: list[exp.Expr] = []
    while isinstance(node, kind):
        parts.append(node.expression)
        node = node.this
    parts.append(node)
    return parts[::-1]


def _is_field(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column | exp.Dot)


def _is_literal(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal | exp.Neg | exp.Boolean | exp.Null | exp.Cast)


def _names(node: exp.Expr) -> list[exp.Identifier] | None:
    """The names of a field from the outermost in; None if it is not made of names alone."""
    tail: list[exp.Expr] = []
    while isinstance(node, exp.Dot):
        tail.append(node.expression)
        node = node.this
    if not isinstance(node, exp.Column):
        return None
    names = [node.args[part] for part in ("catalog", "db", "table", "this") if node.args.get(part)]
    names += tail[::-1]
    return names if all(isinstance(name, exp.Identifier) for name in names) else None
