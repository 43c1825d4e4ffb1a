"""Who may do what: the decision, from the rules alone.

The last rule that fits decides. A subscription asks for many topics at once, so it is allowed only where one
rule allows all of them, and denied where a rule denies any. Files and users are not known here, nor is what
is done with the answer.
"""

from __future__ import annotations

from tidings.language.subscriptions import filters_meet, topics_cover
from tidings.mqtt.events import Access, Rule

ACTIONS = ("publish", "subscribe", "declare")
"""What a rule may be about; or "any"."""

USER = "%u"
CLIENT = "%c"


def allowed(access: Access, user: str | None, client: str, action: str, topic_filter: str) -> bool:
    """Whether a user may publish to a topic, subscribe to a topic filter, or declare it.

    >>> access = Access((Rule(True, "any", "#"), Rule(False, "any", "private/#")))
    >>> allowed(access, "ann", "c1", "subscribe", "traffic/#")
    True
    >>> allowed(access, "ann", "c1", "subscribe", "#")
    False
    """
    rule = deciding(access, user, client, action, topic_filter)
    return rule is not None and rule.allow


def deciding(access: Access, user: str | None, client: str, action: str, topic_filter: str) -> Rule | None:
    """The rule that decides; None where no rule fits, and nothing is allowed."""
    name = user or ""
    for rule in reversed(access.rules):
        if rule.action not in (action, "any") or (rule.user is not None and rule.user != name):
            continue
        about = rule.topic_filter
        if "%" in about:
            filled = _filled(about, name, client, rule.allow)
            if filled is None:
                continue
            about = filled
        # What is denied for some of the topics asked for cannot be allowed for all of them.
        if topics_cover(about, topic_filter) if rule.allow else filters_meet(about, topic_filter):
            return rule
    return None


def _filled(about: str, user: str, client: str, allow: bool) -> str | None:
    """A rule's topic filter with the names in their places; None if it is about nobody like this.

    A name that is empty, or would be more than one level or a wildcard, opens nothing; what is denied to it
    is denied for every name.
    """
    levels = about.split("/")
    for at, level in enumerate(levels):
        if level in (USER, CLIENT):
            name = user if level == USER else client
            plain = bool(name) and not any(char in "/+#" for char in name)
            if not plain and allow:
                return None
            levels[at] = name if plain else "+"
    return "/".join(levels)
