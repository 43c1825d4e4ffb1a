"""Declarations of topics in TOML files, with the line of everything that is wrong.

`tomllib` reads the text, `topics` says what is wrong and at which key, and a small scanner finds the line of
that key: `tomllib` does not tell lines, and packages that do are slow and larger than the scanner.
`topic_text` writes a declaration, since `tomllib` only reads.
"""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_right
from pathlib import Path as FilePath
from typing import Any

from tidings.errors import DeclarationError, Problem
from tidings.language.faults import Where
from tidings.language.fields import IDENTIFIER, Conflict
from tidings.language.schemas import field_mapping
from tidings.language.topics import Topic, examine

DECLARATION_BYTES_MAX = 262_144
"""A thousand fields, each with a long domain, fit; the worst texts of that size take a second or two."""

KEY_NAMES_MAX = 32
"""Names in one dotted key: a field of the greatest depth, with what is around it, has 18."""

_TOO_DEEP = "the values are nested too deeply to be read"


def read_topic(path: str | FilePath) -> Topic:
    """The topic that a TOML file declares; DeclarationError holds everything that is wrong with it."""
    return parse_topic(read_text(path), str(path))


def parse_topic(text: str, source: str = "declaration") -> Topic:
    """The topic that a TOML text declares; `source` names it in messages."""
    mapping = parse_toml(text, source)
    try:
        topic = examine(mapping)
        if isinstance(topic, Topic):
            return topic
        lines = Lines(text)
    except RecursionError:
        raise _refused(source, _TOO_DEEP) from None
    problems = [Problem(fault.message, lines.line(fault.where)) for fault in topic]
    raise DeclarationError(sorted(problems, key=lambda problem: problem.line or 0), source)


def topic_text(topic: Topic) -> str:
    """A declaration as TOML that `parse_topic` reads back; equal topics have equal texts.

    >>> print(topic_text(Topic.from_mapping({"name": "sea", "kind": "plain"})))
    name = "sea"
    kind = "plain"
    version = 1
    """
    mapping = topic.to_mapping()
    mapping.pop("fields", None)
    lines = [f"{name} = {_toml(value)}" for name, value in mapping.items()]
    if topic.fields:
        lines.append("[fields]")
    for path, field in topic.fields.items():
        traits = field_mapping(field)
        if field.conflict is Conflict.FIRST:
            del traits["conflict"]  # the default; a long declaration must not grow beyond the limit
        told = ", ".join(f"{trait} = {_toml(value)}" for trait, value in traits.items())
        key = ".".join(name if IDENTIFIER.fullmatch(name) else _toml(name) for name in path)
        lines.append(f"{key} = {{ {told} }}")
    return "\n".join(lines)


def _toml(value: object) -> str:
    """A string, number, truth value or list of these as TOML writes it."""
    if isinstance(value, list):
        return f"[{', '.join(_toml(one) for one in value)}]"
    # JSON writes the same, except that TOML wants this character escaped too.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def read_text(path: str | FilePath) -> str:
    """The text of a TOML file, bounded; DeclarationError says why it cannot be read."""
    source = str(path)
    try:
        with FilePath(path).open("rb") as file:
            data = file.read(DECLARATION_BYTES_MAX + 1)
    except FileNotFoundError:
        raise _refused(source, "there is no such file") from None
    except IsADirectoryError:
        raise _refused(source, "this is a folder; name the TOML file in it") from None
    except (OSError, ValueError) as error:
        raise _refused(source, f"the file cannot be read: {error}") from None
    if len(data) > DECLARATION_BYTES_MAX:
        raise _refused(source, f"the file is larger than {DECLARATION_BYTES_MAX} bytes, the limit")
    try:
        # Editors on Windows put a byte order mark at the beginning.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refused(source, "the file is not UTF-8 text; save it as UTF-8", line) from None


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """What a TOML text says, at a bounded cost; DeclarationError says where it is not TOML."""
    if len(text) > DECLARATION_BYTES_MAX:
        raise _refused(source, f"the text is longer than {DECLARATION_BYTES_MAX} characters, the limit")
    _refuse_long_keys(text, source)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _refused(source, _TOO_DEEP) from None
    except ValueError as error:
        # TOMLDecodeError, or what Python says to a number of thousands of digits.
        raise _syntax_error(str(error), text, source) from None


def _refuse_long_keys(text: str, source: str) -> None:
    """Refuse `a.a.a.…` of thousands of names, for which tomllib needs memory by the square."""
    bare = _SILENT.sub(lambda part: '""' + "\n" * part[0].count("\n"), text)
    if key := _LONG_KEY.search(bare):
        line = bare.count("\n", 0, key.start()) + 1
        raise _refused(source, f"a key has more than {KEY_NAMES_MAX} names; write fewer dots", line)


def _refused(source: str, message: str, line: int | None = None) -> DeclarationError:
    return DeclarationError([Problem(message, line)], source)


def _syntax_error(message: str, text: str, source: str) -> DeclarationError:
    place = re.search(r" \(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)$", message)
    if place is None:
        return _refused(source, f"this is not TOML: {message}")
    reason = f"this is not TOML: {message[: place.start()]}"
    if place[1] is None:
        return _refused(source, f"{reason} (at the end)", text.rstrip().count("\n") + 1)
    return _refused(source, f"{reason} (column {place[2]})", int(place[1]))


_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
# In the order tried: the triple quotes first, or they would be read as an empty string and a quote. Up to two
# quotes may stand before the closing three.
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}|'
    r"'''(?:[^']|'(?!''))*'{3,5}|"
    r'"(?:[^"\\\n]|\\.)*"|'
    r"'[^'\n]*'",
    re.DOTALL,
)
_SILENT = re.compile(r"#[^\n]*|" + _STRING.pattern, re.DOTALL)
# Begins only where a name begins, and never goes back: linear in the text.
_LONG_KEY = re.compile(r'(?<![\w"-])(?:[\w"-]++[ \t]*+\.[ \t]*+){' + str(KEY_NAMES_MAX) + "}")
_SCALAR = re.compile(r"[^,\]}#\r\n]+")


class Lines:
    """The line of each key and list element of a TOML text that tomllib has read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._at = 0
        self._found: dict[Where, int] = {}
        self._tables: dict[Where, int] = {}
        self._scan()

    def line(self, where: Where) -> int:
        """The line of a place, or of the nearest place around it that is written down."""
        while where and where not in self._found:
            where = where[:-1]
        return self._found.get(where, 1)

    def _scan(self) -> None:
        table: Where = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text.startswith("[[", self._at):
                table = self._header(2)
            elif self._text.startswith("[", self._at):
                table = self._header(1)
            else:
                self._pair(table)
            self._skip(_BLANK)

    def _header(self, brackets: int) -> Where:
        self._at += brackets
        start = self._at
        where: Where = ()
        names = self._key()
        for at, name in enumerate(names):
            where = (*where, name)
            self._note(where, start)
            if brackets == 2 and at == len(names) - 1:
                self._tables[where] = self._tables.get(where, -1) + 1
            # Below a list of tables, a name goes on in the last of them.
            if where in self._tables:
                where = (*where, self._tables[where])
                self._note(where, start)
        self._at += brackets
        return where

    def _pair(self, table: Where) -> None:
        start = self._at
        where = table
        for name in self._key():
            where = (*where, name)
            self._note(where, start)
        self._at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(where)

    def _key(self) -> list[str]:
        names: list[str] = []
        while True:
            self._skip(_SPACE)
            if self._text[self._at] in "\"'":
                quoted = self._skip(_STRING)
                names.append(str(tomllib.loads(f"key = {quoted}")["key"]))
            else:
                names.append(self._skip(_BARE))
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return names
            self._at += 1

    def _value(self, where: Where) -> None:
        opening = self._text[self._at]
        if opening in "\"'":
            self._skip(_STRING)
        elif opening in "[{":
            self._at += 1
            self._skip(_BLANK)
            count = 0
            while self._text[self._at] not in "]}":
                if opening == "{":
                    self._pair(where)
                else:
                    self._note((*where, count), self._at)
                    self._value((*where, count))
                    count += 1
                self._skip(_BLANK)
                if self._text[self._at] == ",":
                    self._at += 1
                    self._skip(_BLANK)
            self._at += 1
        else:
            self._skip(_SCALAR)

    def _note(self, where: Where, at: int) -> None:
        self._found.setdefault(where, bisect_right(self._breaks, at) + 1)

    def _skip(self, what: re.Pattern[str]) -> str:
        match = what.match(self._text, self._at)
        assert match is not None, "tomllib has read what the scanner does not understand"
        self._at = match.end()
        return match[0]
