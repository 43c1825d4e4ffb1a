"""The file of rules: who may do what, as TOML, with the line of everything that is wrong.

    [[rule]]
    allow = true
    action = "publish"
    topic = "sensors/%u/#"
    user = "ann"

What the rules mean together is decided in `mqtt.access`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tidings.errors import DeclarationError, Problem
from tidings.language.declarations import Lines, parse_toml, read_text
from tidings.language.faults import shown
from tidings.language.names import filter_fault
from tidings.mqtt.access import ACTIONS
from tidings.mqtt.events import ALL_ALLOWED, Rule

KEYS = ("allow", "action", "topic", "user")

OPEN = ALL_ALLOWED.rules
"""The rules of a broker without a file: whoever may connect may do everything."""


def read_rules(path: Path) -> tuple[Rule, ...]:
    """The rules of a file, in their order. DeclarationError holds everything that is wrong with it."""
    text = read_text(path)
    mapping = parse_toml(text, str(path))
    lines = Lines(text)
    problems = [
        Problem(f"there is no {key!r} here; write [[rule]]", lines.line((key,)))
        for key in mapping
        if key != "rule"
    ]
    tables = mapping.get("rule", [])
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        problems.append(Problem("rules are tables: write [[rule]] above each", lines.line(("rule",))))
        tables = []
    rules = []
    for at, table in enumerate(tables):
        faults = list(_faults(table))
        problems += [Problem(text, lines.line(("rule", at, *key))) for key, text in faults]
        if not faults:
            user = table.get("user")
            rules.append(Rule(table["allow"], table.get("action", "any"), table["topic"], user))
    if problems:
        raise DeclarationError(sorted(problems, key=lambda problem: problem.line or 0), str(path))
    return tuple(rules)


def write_rule(rule: Rule) -> str:
    """A rule in one line, for people."""
    who = "everyone" if rule.user is None else f"user {rule.user!r}" if rule.user else "anonymous clients"
    what = "everything" if rule.action == "any" else rule.action
    return f"{'allow' if rule.allow else 'deny'} {what} on {rule.topic_filter!r} for {who}"


def _faults(table: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is wrong with one rule, and at which key."""
    for key in table:
        if key not in KEYS:
            yield (key,), f"a rule has no {key!r}; it has {', '.join(KEYS)}"
    if not isinstance(table.get("allow"), bool):
        yield (("allow",) if "allow" in table else ()), "a rule says allow = true, or allow = false to deny"
    action = table.get("action", "any")
    if action not in (*ACTIONS, "any"):
        yield ("action",), f"{shown(action)} is no action; it is one of {', '.join((*ACTIONS, 'any'))}"
    topic = table.get("topic")
    if not isinstance(topic, str):
        yield (("topic",) if "topic" in table else ()), 'a rule says which topics: topic = "sensors/#"'
    elif fault := filter_fault(topic):
        yield ("topic",), fault
    if not isinstance(table.get("user", ""), str):
        yield ("user",), f'{shown(table["user"])} is no user; write a name, or "" for the anonymous'
