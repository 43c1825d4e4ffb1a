"""How the opening looks: on a terminal two columns that follow what happens, elsewhere lines, and at the end
the two columns as they are then.

On the left what people report, on the right the events that it becomes and who has heard of them. It is drawn
from what the witness has seen, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tidings.demo.roads import Fate, Subscriber
from tidings.demo.witness import Event, Witness

MARKS = {Fate.OPENS: ("●", "green"), Fate.MERGES: ("+", "cyan"), Fate.DROPPED: ("·", "bright_black")}
LEGEND = {Fate.OPENS: "opens an event", Fate.MERGES: "adds to one", Fate.DROPPED: "says nothing new"}

UP = ("●", "green")
DOWN = ("✗", "red")
BACK = ("◐", "yellow")

FIRST = ("severity", "fire", "injured", "lanes", "road", "note")
"""What is worth most when there is little room."""

AROUND = 10
"""Lines that are not in the columns: their frames, what is above and below, and the prompt."""

EVENT_LINES = 2
LEFT_SHARE = 0.42
PLACE_WIDTH = 13
QUIET = "bright_black"


class Screen:
    """Shows what a witness sees. What is said stays: above the columns, or as a line where there are none."""

    def __init__(self, console: Console, witness: Witness, subscribers: Sequence[Subscriber]) -> None:
        self._console = console
        self._witness = witness
        self._subscribers = subscribers
        self._live = Live(console=console, auto_refresh=False) if console.is_interactive else None
        self.brokers: dict[str, tuple[str, str]] = {}
        """Each with its mark."""
        self._now = Text()

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self.draw()
            self._live.stop()
        elif kind is None:
            self._console.print(self.picture())

    def say(self, text: str, style: str = "") -> None:
        """What happens now."""
        self._now = Text(text, style, no_wrap=True, overflow="ellipsis")
        if self._live is None:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            self.draw()

    def draw(self) -> None:
        """Show how it is."""
        if self._live is not None:
            self._live.update(self.picture(), refresh=True)

    def picture(self) -> RenderableType:
        """All of it, as wide as the console."""
        size = self._console.size
        lines = max(4, min(size.height - AROUND, EVENT_LINES * 7))
        left = round(size.width * LEFT_SHARE)
        columns = Table.grid(expand=True)
        columns.add_column(width=left)
        columns.add_column(ratio=1)
        columns.add_row(
            Panel(
                self._reports(lines),
                title=_title("what people report", self._witness.reports),
                padding=(0, 1),
                border_style=QUIET,
            ),
            Panel(
                self._events(lines),
                title=_title("the events it becomes", len(self._witness.events)),
                padding=(0, 1),
                border_style=QUIET,
            ),
        )
        return Group(self._now, columns, self._below())

    def _reports(self, lines: int) -> RenderableType:
        shown = list(self._witness.said)[-lines:]
        texts = []
        for report, fate in shown:
            mark, colour = MARKS[fate]
            rest = f" {report.place:<{PLACE_WIDTH}} {words(report.fields)}"
            texts.append(_line((mark, colour), (rest, colour if fate is Fate.DROPPED else "")))
        return Group(*texts, *[Text("")] * (lines - len(texts)))

    def _events(self, lines: int) -> RenderableType:
        shown = list(self._witness.events.values())[-(lines // EVENT_LINES) :]
        texts = [text for event in shown for text in self._event(event)]
        return Group(*texts, *[Text("")] * (lines - len(texts)))

    def _event(self, event: Event) -> list[RenderableType]:
        latest = event.latest
        known = Table.grid(padding=(0, 1), expand=True)
        known.add_column(width=PLACE_WIDTH, no_wrap=True)
        known.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        known.add_column(no_wrap=True, justify="right")
        made_of = f"{latest.reports} report{'' if latest.reports == 1 else 's'}"
        known.add_row(Text(latest.thing[1], "bold"), words(latest.fields), Text(made_of, QUIET))
        has = {one.name: event.has[one.name] for one in self._subscribers if one.name in event.has}
        heard = _line(
            (f"version {latest.version} ", "cyan"),
            ("→ ", QUIET),
            # Who has an earlier version asked to hear less often, or has not got it yet.
            *[
                (f"{name} ", "green" if version == latest.version else "yellow")
                for name, version in has.items()
            ],
        )
        return [known, heard]

    def _below(self) -> RenderableType:
        seen = self._witness
        fates = [
            part
            for fate, (mark, colour) in MARKS.items()
            for part in ((f"{mark} ", colour), f"{LEGEND[fate]} {seen.fates[fate]}  ")
        ]
        marks = [
            part
            for name, (mark, colour) in self.brokers.items()
            for part in (f"{name} ", (f"{mark}  ", colour))
        ]
        told = (("versions ", QUIET), f"{seen.versions}", ("   delivered ", QUIET), f"{seen.deliveries}")
        asked = [
            _line((one.name, "green"), (f" ({one.wish}) ", QUIET), f"{seen.got[one.name]}")
            for one in self._subscribers
        ]
        return Group(
            _line(*fates), _line(("brokers  ", QUIET), *marks, " ", *told), Columns(asked, padding=(0, 3))
        )


def _line(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def words(fields: Mapping[str, object]) -> str:
    """What is said of something, the most important first.

    >>> words({"place": "Omonia", "road": "A1", "severity": 4, "fire": True, "lanes": 0})
    'severity 4, fire, 0 lanes, A1'
    """
    texts = []
    for name in FIRST:
        value = fields.get(name)
        if name == "lanes" and value is not None:
            texts.append(f"{value} lane{'' if value == 1 else 's'}")
        elif name == "injured" and value is not None:
            texts.append(f"{value} injured")
        elif name == "fire" and value:
            texts.append("fire")
        elif name == "severity" and value is not None:
            texts.append(f"severity {value}")
        elif name in ("road", "note") and value is not None:
            texts.append(str(value))
    return ", ".join(texts)


def _title(text: str, count: int) -> Text:
    return Text.assemble((f"{text} ", "bold"), (f"{count}", "cyan"))
