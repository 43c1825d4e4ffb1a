"""Plain filter texts to trees, quickly.

Nearly all filters, and all that brokers tell each other, are made of comparisons `field op literal`, BETWEEN,
IN, LIKE and IS [NOT] NULL, joined by AND, OR and NOT. They are read here by one regular expression and a
descent, at a fifth of what sqlglot takes. Whatever is not of that form, and whatever is wrong, is left to
`grammar`, which judges this module: what is read here it reads the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from tidings.language.fields import TOPIC, USER, Field, Path, Type
from tidings.language.like import BadPattern
from tidings.language.limits import Limits, Steps
from tidings.language.literals import fitting, number, time
from tidings.language.regions import TYPES, Kind
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

TOKEN_STEPS = 1
"""What is done here for a word or sign."""

CHARACTERS_PER_STEP = 64
"""Of long strings, which take time even if they are one token."""

TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
        ('[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")          # string
        |(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.]))       # number
        |([A-Za-z_][A-Za-z0-9_]*(?!\w))                             # word
        |`([^`]+)`                                                  # name in backticks
        |(<=|>=|<>|!=|==|[=<>(),.](?![=<>]))                        # sign
        |([^ \t\r\n])                                               # anything else
    )""",
    re.VERBOSE,
)
"""One word or sign with what is before it."""

ODD = re.compile("[\0\ud800-\udfff]")
"""What cannot be in a filter."""

RELATIONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}

ESCAPE = re.compile(r"\\(.)")
ESCAPED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r", "%": "\\%", "_": "\\_"}
"""What is meant by a backslash and one of these characters; before `%` and `_` it stays for LIKE."""

WORDS = frozenset(("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"))

NOT_NAMES = WORDS | {"CURRENT_PATH"}
"""Words that are no names of fields, whatever their case, or not at the beginning of one."""

STRING, NUMBER, WORD, QUOTED, SIGN, OTHER = range(6)

Token = tuple[str, str, str, str, str, str]
"""What is at each of these places is the token, the others are empty; a word of the language is a sign."""


class _NotPlain(Exception):
    """The text is not of this form."""


def read(
    text: str, fields: Mapping[Path, Field] | None, limits: Limits, steps: Steps
) -> tuple[Node | None, int]:
    """The tree of a plain text, None if it is not plain, and how many words and signs it has about."""
    steps.take(len(text) // CHARACTERS_PER_STEP)
    most = (steps.limit - steps.spent) // TOKEN_STEPS + 1
    # Counted first, because a hostile text is all signs.
    tokens: list[Token] = [found.groups("") for found in islice(TOKEN.finditer(text), most)]  # type: ignore[misc]
    steps.take(TOKEN_STEPS * len(tokens))
    count = len(tokens)
    if not tokens or count > limits.tokens or ODD.search(text):
        return None, count
    try:
        return _Plain(tokens, fields, limits).read(), count
    except (_NotPlain, BadPattern, IndexError, KeyError, ValueError):
        return None, count


class _Plain:
    """One reading of one text. Behind its last token an IndexError says that more was expected."""

    def __init__(self, tokens: list[Token], fields: Mapping[Path, Field] | None, limits: Limits) -> None:
        self.tokens = tokens
        self.fields = fields
        self.limits = limits
        self.patterns = 0
        self.at = 0

    def read(self) -> Node:
        found = self._or(0)
        if self.at != len(self.tokens):
            raise _NotPlain
        return found

    def _word(self) -> str:
        """The word here in capitals; empty if there is none."""
        at = self.at
        return self.tokens[at][WORD].upper() if at < len(self.tokens) else ""

    def _or(self, depth: int) -> Node:
        parts = [self._and(depth)]
        while self._word() == "OR":
            self.at += 1
            parts.append(self._and(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _and(self, depth: int) -> Node:
        parts = [self._not(depth)]
        while self._word() == "AND":
            self.at += 1
            parts.append(self._not(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _not(self, depth: int, nots: int = 0) -> Node:
        token = self.tokens[self.at]
        if token[SIGN] == "(":
            self._deeper(depth + nots)
            self.at += 1
            found = self._or(depth + nots + 1)
            self._sign(")")
            return found
        word = token[WORD].upper()
        if word == "NOT":
            self._deeper(depth + nots)
            self.at += 1
            return Not(self._not(depth, nots + 1))
        if word in ("TRUE", "FALSE"):
            self.at += 1
            return Always(word == "TRUE")
        return self._term(depth)

    def _deeper(self, depth: int) -> None:
        """As `tokens` counts parentheses and NOTs."""
        if depth >= self.limits.depth:
            raise _NotPlain

    def _sign(self, wanted: str) -> None:
        if self.tokens[self.at][SIGN] != wanted:
            raise _NotPlain
        self.at += 1

    def _term(self, depth: int) -> Node:
        path = self._path()
        if self.at == len(self.tokens):
            return self._bare(path)
        token = self.tokens[self.at]
        relation = RELATIONS.get(token[SIGN])
        if relation is not None:
            self.at += 1
            field = self._field(path)
            return Comparison(field, relation, *self._literal(field))
        word = token[WORD].upper()
        negated = word == "NOT"
        if negated:
            self._deeper(depth)
            self.at += 1
            word = self.tokens[self.at][WORD].upper()
        found: Node
        self.at += 1
        match word:
            case "IN":
                found = self._in(path, depth)
            case "BETWEEN":
                field = self._field(path)
                low = Comparison(field, ">=", *self._literal(field))
                if self._word() != "AND":
                    raise _NotPlain
                self.at += 1
                found = And((low, Comparison(field, "<=", *self._literal(field))))
            case "LIKE":
                found = self._like(path)
            case "IS" if not negated:
                negated = self._word() == "NOT"
                if negated:
                    self._deeper(depth)
                    self.at += 1
                if self._word() != "NULL":
                    raise _NotPlain
                self.at += 1
                found = Missing(self._field(path))
            case _:
                self.at -= 1
                return self._bare(path) if not negated else self._nothing()
        return Not(found) if negated else found

    def _nothing(self) -> Node:
        raise _NotPlain

    def _bare(self, path: Path) -> Node:
        field = self._field(path)
        if field.type not in (None, Type.BOOL):
            raise _NotPlain
        return Comparison(field, "=", Kind.BOOL, True)

    def _path(self) -> Path:
        names = [self._name(first=True)]
        while self.at < len(self.tokens) and self.tokens[self.at][SIGN] == ".":
            self.at += 1
            names.append(self._name(first=False))
        if len(names) > self.limits.path:
            raise _NotPlain
        return tuple(names)

    def _name(self, first: bool) -> str:
        token = self.tokens[self.at]
        self.at += 1
        word = token[WORD]
        if word and word.upper() in (NOT_NAMES if first else WORDS):
            raise _NotPlain
        if not word and not token[QUOTED]:
            raise _NotPlain
        return word or token[QUOTED]

    def _field(self, path: Path) -> Operand:
        if path[0] in (TOPIC, USER):
            if len(path) != (1 if path[0] == TOPIC else 2):
                raise _NotPlain
            return Operand(path, Type.STRING)
        if self.fields is None:
            return Operand(path, None)
        field = self.fields.get(path)
        if field is None or field.many:
            raise _NotPlain
        return Operand(path, field.type)

    def _literal(self, field: Operand) -> tuple[Kind, Any]:
        token = self.tokens[self.at]
        self.at += 1
        written = token[NUMBER]
        value: Any
        if written:
            kind, value = Kind.NUMBER, fitting(field.type, number(written))
        elif token[STRING]:
            kind, value = Kind.STRING, _unescaped(token[STRING])
        elif token[WORD].upper() in ("TIMESTAMP", "DATE"):
            kind, value = Kind.TIMESTAMP, self._time(token[WORD].upper() == "DATE")
        elif token[WORD].upper() in ("TRUE", "FALSE"):
            kind, value = Kind.BOOL, token[WORD].upper() == "TRUE"
        else:
            raise _NotPlain
        if field.type is not None and kind is not TYPES[field.type]:
            raise _NotPlain
        return kind, value

    def _time(self, date: bool) -> int:
        written = self.tokens[self.at][STRING]
        if not written:
            raise _NotPlain
        self.at += 1
        return time(_unescaped(written), date)

    def _in(self, path: Path, depth: int) -> Node:
        self._deeper(depth)
        field = self._field(path)
        self._sign("(")
        values: set[Any] = set()
        kinds: set[Kind] = set()
        count = 0
        exponents = 0
        while True:
            exponents += "e" in self.tokens[self.at][NUMBER].lower()
            kind, value = self._literal(field)
            values.add(value)
            kinds.add(kind)
            count += 1
            if self.tokens[self.at][SIGN] != ",":
                break
            self.at += 1
        self._sign(")")
        if len(kinds) > 1 or count > self.limits.listed:
            raise _NotPlain
        if exponents and field.type is not Type.FLOAT and (1 < count != exponents or field.type is Type.INT):
            # Beside others they make Spark compare all of them as DOUBLE.
            raise _NotPlain
        return Membership(field, kinds.pop(), tuple(sorted(values)))

    def _like(self, path: Path) -> Node:
        field = self._field(path)
        written = self.tokens[self.at][STRING]
        pattern = _unescaped(written)
        self.at += 1
        self.patterns += 1
        if (
            not written
            or field.type not in (None, Type.STRING)
            or self.patterns > self.limits.patterns
            or len(pattern) > self.limits.pattern
            or self._word() == "ESCAPE"
        ):
            raise _NotPlain
        return Pattern(field, like_parts(pattern, "\\"))


def _unescaped(written: str) -> str:
    """What a string in quotes says; KeyError for an escape that the language does not have."""
    text = written[1:-1]
    return ESCAPE.sub(lambda found: ESCAPED[found[1]], text) if "\\" in text else text
