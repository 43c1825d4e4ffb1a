"""The naive way: ask every filter. It is the judge of the others."""

from __future__ import annotations

from collections.abc import Sequence

from tidings.language.filters import Filter, Unknown
from tidings.matching.base import Event, Id, Matcher, Matches


class Scan(Matcher):
    """Asks every filter about every event.

    >>> from tidings.language.filters import parse
    >>> scan = Scan()
    >>> scan.add("anna", parse("severity >= 3"))
    >>> scan.add("ben", parse("severity >= 3 AND fire"), Unknown.ASSUME)
    >>> scan.match({"severity": 4})
    ['anna', 'ben']
    """

    def __init__(self) -> None:
        super().__init__()
        self._filters: dict[Id, tuple[Filter, Unknown]] = {}

    def add(self, id: Id, filter: Filter, unknown: Unknown = Unknown.WAIT) -> None:  # noqa: A002
        unknown = Unknown(unknown)
        self._admit(id)
        self._filters[id] = (filter, unknown)

    def remove(self, id: Id) -> None:  # noqa: A002
        self._find(id)
        del self._filters[id]

    def match(self, event: Event) -> Matches:
        return self._sorted(
            [id for id, (filter, unknown) in self._filters.items() if filter.matches(event, unknown)]  # noqa: A001
        )

    def match_batch(self, events: Sequence[Event]) -> list[Matches]:
        return [self.match(event) for event in events]

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, id: object) -> bool:  # noqa: A002
        # 1 == True == 1.0 in a dict; as ids they are not the same.
        return type(id) in (int, str) and id in self._filters
