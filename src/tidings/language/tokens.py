"""Filter text to tokens, and what can be refused by looking at these alone.

sqlglot's parser forgives much that Spark does not: `x ISNULL`, `x IN [1]`, a comma too many, a word as a
command. So the tokens are checked first, each against its neighbours, and only words of the filter language
pass as such. All other words are names of fields, and are handed on as quoted, so that no parser takes a
field `set` or `if` for something else. What passes here costs the parser time in proportion to the number of
tokens, which is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from tidings.errors import FilterError, FilterTooCostly
from tidings.language.fields import IDENTIFIER, TOPIC, USER
from tidings.language.limits import Limits

SPARK = Spark()

EXPECTED = "expected a comparison such as severity >= 3, BETWEEN, IN, LIKE or IS [NOT] NULL"

WORDS = frozenset(
    {
        *(TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IN, TokenType.BETWEEN, TokenType.LIKE),
        *(TokenType.ESCAPE, TokenType.IS, TokenType.NULL, TokenType.TRUE, TokenType.FALSE),
    }
)
"""The words of the language, but for TIMESTAMP and DATE, which are names where no string follows."""

SIGNS = frozenset(
    {
        *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
        *(TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA, TokenType.DOT),
        *(TokenType.DASH, TokenType.PLUS, TokenType.STRING, TokenType.NUMBER),
    }
)

ENDS = frozenset(
    {
        *(TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER, TokenType.R_PAREN),
        *(TokenType.NULL, TokenType.TRUE, TokenType.FALSE),
    }
)
"""What an operand can end with."""

NEGATABLE = frozenset({TokenType.IN, TokenType.BETWEEN, TokenType.LIKE})

SIGN_REASONS: dict[TokenType, str] = {
    TokenType.L_BRACKET: "brackets are not part of the language; nested fields take dots: place.city",
    TokenType.SEMICOLON: "a filter is one condition, without `;`",
    TokenType.DCOLON: "casts and typed numbers are not part of the language; write 10 or 1.5e3",
    TokenType.NULLSAFE_EQ: "<=> is not part of the language; write = together with IS NULL",
    TokenType.FARROW: "=> is not part of the language; greater or equal is written >=",
    TokenType.PLACEHOLDER: "parameters are not part of the language; write the value itself",
    TokenType.PARAMETER: "parameters are not part of the language; write the value itself",
    TokenType.COLON: "parameters are not part of the language; write the value itself",
    TokenType.RAW_STRING: "raw strings are not part of the language; write the string in plain quotes",
    TokenType.HEX_STRING: "hexadecimal literals are not part of the language; write the number in decimal",
    **dict.fromkeys(
        (TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.CARET, TokenType.AMP, TokenType.DPIPE),
        "arithmetic is not part of the language; compare a field with a literal",
    ),
}

WORD_REASONS = {
    **dict.fromkeys(
        ("RLIKE", "REGEXP"), "regular expressions are not part of the language; use LIKE with % and _"
    ),
    "ILIKE": "ILIKE is not part of the language; use LIKE",
    **dict.fromkeys(("ISNULL", "NOTNULL"), "write IS NULL or IS NOT NULL"),
    **dict.fromkeys(("DIV", "MOD"), "arithmetic is not part of the language; compare a field with a literal"),
    **dict.fromkeys(("CASE", "WHEN"), "CASE is not part of the language; use AND and OR"),
    "SELECT": "a filter looks at one event; queries are not part of the language",
    "DISTINCT": "IS DISTINCT FROM is not part of the language; write <> together with IS NULL",
    **dict.fromkeys(("SYMMETRIC", "ASYMMETRIC"), "BETWEEN takes the smaller bound first, and nothing else"),
}
"""What people try, with the way out, where such a word stands where no name can."""

OWN_REASON = f"of names with $ there are {TOPIC} and {USER}.name; one of the event's own stands in backticks"

FUNCTION_WORD = "CURRENT_PATH"
"""The one word that Spark 4.3 takes for a function where a column has that name, of all its keywords."""

ESCAPES = frozenset("\\'\"ntr%_")
"""The backslash escapes on which Spark and sqlglot agree and that anyone needs."""


def tokens_of(text: str, limits: Limits) -> list[Token]:
    """The tokens of a filter, names as quoted identifiers; raises FilterError."""
    place = re.search("[\0\ud800-\udfff]", text)
    if place:
        raise refusal(text, *place.span(), "a NUL or half of a surrogate pair; neither can be in a filter")
    try:
        tokens = _tokenized(text)
    except TokenError:
        start, quote = _open_quote(text)
        raise refusal(text, start, len(text), f"this {quote} is never closed") from None
    tokens = _with_own(text, tokens)
    _check_gaps(text, tokens)
    if not tokens:
        raise FilterError(f"the filter is empty; {EXPECTED}", text)
    if len(tokens) > limits.tokens:
        raise FilterTooCostly(
            f"the filter has {len(tokens)} words and signs; the limit is {limits.tokens}; "
            "split it into several subscriptions"
        )
    _check_depth(text, tokens, limits)
    named = [_named(text, token, tokens[at + 1 : at + 2]) for at, token in enumerate(tokens)]
    for at, token in enumerate(named):
        before = named[at - 1] if at else None
        after = named[at + 1] if at + 1 < len(named) else None
        _check(text, token, before, after)
    return named


def _tokenized(text: str) -> list[Token]:
    tokens: list[Token] = SPARK.tokenize(text)
    if tokens and tokens[0].token_type in Spark.Tokenizer.COMMANDS:
        # A first word such as SHOW makes one string of the rest; behind a parenthesis it is a word.
        tokens = [
            Token(token.token_type, token.text, token.line, token.col, token.start - 1, token.end - 1)
            for token in SPARK.tokenize(f"({text}")[1:]
        ]
    return tokens


def _with_own(text: str, tokens: list[Token]) -> list[Token]:
    """`$` and the word behind it as one name, where that is one of ours."""
    found: list[Token] = []
    for token in tokens:
        before = found[-1] if found else None
        if before is not None and before.text == "$" and before.token_type is TokenType.PARAMETER:
            word = text[before.start : token.end + 1]
            if word not in (TOPIC, USER):
                raise refusal(text, before.start, token.end + 1, OWN_REASON)
            found[-1] = Token(TokenType.IDENTIFIER, word, before.line, before.col, before.start, token.end)
        else:
            found.append(token)
    return found


def refusal(text: str, start: int, end: int, reason: str) -> FilterError:
    """A FilterError that says its place in words, too."""
    return FilterError(f"{reason} (at character {start + 1})", text, start, end)


def _of(text: str, token: Token, reason: str) -> FilterError:
    return refusal(text, token.start, token.end + 1, reason)


def _check_gaps(text: str, tokens: Sequence[Token]) -> None:
    """Between tokens there is white space as Spark knows it; sqlglot knows more, and skips comments."""
    start = 0
    for end, after in [*((token.start, token.end + 1) for token in tokens), (len(text), len(text))]:
        gap = text[start:end]
        odd = gap.lstrip(" \t\r\n")
        if odd:
            at = end - len(odd)
            if odd.startswith(("--", "/*")):
                raise refusal(text, at, end, "comments are not part of the language")
            raise refusal(text, at, at + 1, "this character is no white space here; write a plain space")
        start = max(start, after)


def _check_depth(text: str, tokens: Sequence[Token], limits: Limits) -> None:
    depth = nots = 0
    opened: list[int] = []
    for token in tokens:
        if token.token_type is TokenType.NOT:
            nots += 1
        else:
            if token.token_type is TokenType.L_PAREN:
                opened.append(1 + nots)
                depth += 1 + nots
            elif token.token_type is TokenType.R_PAREN and opened:
                depth -= opened.pop()
            nots = 0
        if depth + nots > limits.depth:
            raise FilterTooCostly(
                f"the filter is nested too deeply here; the limit is {limits.depth}",
                text,
                token.start,
                token.end + 1,
            )


def _named(text: str, token: Token, after: Sequence[Token]) -> Token:
    """A word that is not of the language as a quoted identifier; a sign that is not is refused."""
    kind = token.token_type
    if kind in WORDS or kind in SIGNS or kind is TokenType.IDENTIFIER:
        return token
    if kind in SIGN_REASONS:
        raise _of(text, token, SIGN_REASONS[kind])
    word = text[token.start : token.end + 1]
    if word.upper() in ("TIMESTAMP", "DATE") and after and after[0].token_type is TokenType.STRING:
        return token
    if not word[0].isalnum() and word[0] != "_":
        raise _of(text, token, f"this is not part of the language; {EXPECTED}")
    return Token(TokenType.IDENTIFIER, word, token.line, token.col, token.start, token.end)


def _check(text: str, token: Token, before: Token | None, after: Token | None) -> None:
    """One token against its neighbours."""
    kind = token.token_type
    left = None if before is None else before.token_type
    right = None if after is None else after.token_type
    if kind is TokenType.IDENTIFIER:
        _check_name(text, token, left, right)
    elif kind is TokenType.STRING:
        if left is TokenType.STRING and before is not None:
            reason = "two strings side by side; a quote within a string is written \\'"
            raise refusal(text, before.start, token.end + 1, reason)
        _check_escapes(text, token)
    elif kind is TokenType.COMMA:
        if left not in ENDS or right in (None, TokenType.COMMA, TokenType.R_PAREN):
            raise _of(text, token, "a comma stands between two literals of an IN list")
    elif kind is TokenType.NOT:
        if left is TokenType.IS and right is TokenType.NOT:
            raise _of(text, token, "IS takes NULL or NOT NULL")
        if left in ENDS and right not in NEGATABLE:
            raise _of(
                text, token, "after a field, NOT stands before IN, BETWEEN or LIKE; or write IS NOT NULL"
            )
    elif kind is TokenType.DOT:
        number = right is TokenType.NUMBER and left is not TokenType.IDENTIFIER
        if number and after is not None and after.start != token.end + 1:
            raise _of(text, token, "a point and its digits are written together: 0.5")
        if not number and (left is not TokenType.IDENTIFIER or right is not TokenType.IDENTIFIER):
            raise _of(text, token, "a dot stands between two names: place.city")


def _check_name(text: str, token: Token, left: TokenType | None, right: TokenType | None) -> None:
    word = text[token.start : token.end + 1]
    if right is TokenType.L_PAREN:
        raise _of(text, token, "functions are not part of the language; compare a field with a literal")
    if word.startswith("`"):
        return
    reason = WORD_REASONS.get(word.upper())
    if left in ENDS or left is TokenType.IS or right in (TokenType.STRING, TokenType.NUMBER):
        if reason is None and right is TokenType.STRING and left not in ENDS:
            reason = "typed literals other than TIMESTAMP '…' and DATE '…' are not part of the language"
        raise _of(text, token, reason or f"a name cannot stand here; {EXPECTED}, joined by AND or OR")
    if right is TokenType.IDENTIFIER and reason is not None:
        raise _of(text, token, reason)
    if word in (TOPIC, USER):
        if left is TokenType.DOT:
            raise _of(text, token, OWN_REASON)
        return
    if not IDENTIFIER.fullmatch(word):
        raise _of(text, token, f"a name such as {word[:40]} is written in backticks: `{word[:40]}`")
    if word.upper() == FUNCTION_WORD and left is not TokenType.DOT:
        raise _of(text, token, f"Spark takes {word} for a function; a field of that name is written `{word}`")


def _check_escapes(text: str, token: Token) -> None:
    written = text[token.start : token.end + 1]
    at = written.find("\\")
    while at >= 0:
        if written[at + 1] not in ESCAPES:
            start = token.start + at
            reason = "in a string, \\ stands before one of \\ ' \" n t r % _; write \\\\ for \\"
            raise refusal(text, start, start + 2, reason)
        at = written.find("\\", at + 2)


def _open_quote(text: str) -> tuple[int, str]:
    """Where the quote or comment that is never closed begins."""
    quote, start, at = "", 0, 0
    while at < len(text):
        c = text[at]
        if quote:
            if c == "\\" and quote != "`":
                at += 1
            elif c == quote:
                quote = ""
        elif c in "'\"`":
            quote, start = c, at
        elif text.startswith("/*", at):
            return at, "comment"
        at += 1
    return (start, quote) if quote else (0, "text")
