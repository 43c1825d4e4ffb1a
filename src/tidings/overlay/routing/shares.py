"""Share groups: of all who subscribe under one, each publication goes to one.

Among the members whose subscription matches, those that are there come before those that are away, and they
take turns. Members of other brokers are not known here yet.
"""

from __future__ import annotations

from collections.abc import Callable

Named = tuple[str, str]
"""(session, name of the subscription)."""


class Shares:
    """All share groups of a broker."""

    def __init__(self) -> None:
        self.groups: dict[Named, str] = {}
        """Of each subscription that is shared."""
        self._last: dict[str, Named] = {}
        """By group: who had the last turn."""

    def join(self, named: Named, group: str) -> None:
        self.groups[named] = group

    def leave(self, named: Named) -> None:
        group = self.groups.pop(named, None)
        if group is not None and group not in self.groups.values():
            self._last.pop(group, None)

    def choose(self, found: dict[Named, int], there: Callable[[str], bool]) -> dict[Named, int]:
        """What was found, with one member left of each group. `there` says whether a session's client is."""
        by_group: dict[str, list[Named]] = {}
        for named in found:
            group = self.groups.get(named)
            if group is not None:
                by_group.setdefault(group, []).append(named)
        if not by_group:
            return found
        left = {named: qos for named, qos in found.items() if named not in self.groups}
        for group, members in by_group.items():
            present = sorted(named for named in members if there(named[0])) or sorted(members)
            last = self._last.get(group, ("", ""))
            chosen = next((named for named in present if named > last), present[0])
            self._last[group] = chosen
            left[chosen] = found[chosen]
        return left
