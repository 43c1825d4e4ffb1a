"""The family of exceptions that Tidings raises.

The type says whose fault it is; the message gives the value, the rule and the way out.

    TidingsError
    ├── InputError              the user's: something given to us is wrong, and can be put right
    │   ├── FilterError         a filter text that cannot be understood; points at the place
    │   │   └── FilterTooCostly     understood, but beyond a limit that bounds its cost
    │   ├── DeclarationError    a topic declaration; carries every problem at once, with its line
    │   ├── ConfigurationError  a broker's settings, from file, variables and flags; every problem at once
    │   ├── PayloadError        a report or an event that is not what its topic declares
    │   ├── NoLongerKept        entries of a log that retention has removed (`history.log`)
    │   ├── SubscriptionError   one that is already there, or is not, or that a broker refuses
    │   └── AccessError         a name, a password or a right that a broker does not accept
    ├── NetworkError            the network's: no broker answers, not in time, or one cannot take more
    │   └── DataLost            entries of a log that were asked for are kept no more
    ├── PeerError               the peer's: bytes that are not the protocol; costs it its connection
    │   └── Malformed           bytes that are not MQTT (`mqtt.codec`); carries the reason code that is told
    └── SetupError              the machine's: Java, a package or a folder is not as we need it
        ├── Damaged             a file of the log that is not what was written (`history.segments`)
        └── ForeignPackage      an unrelated package has put a module `tidings` in our place

Anything else that escapes is a bug of ours.
"""

from __future__ import annotations

from dataclasses import dataclass


class TidingsError(Exception):
    """What all errors of Tidings have in common."""


class InputError(TidingsError):
    """Something given to Tidings is wrong, and the one who gave it can put it right."""


class FilterError(InputError):
    """A filter that cannot be understood, with the place in its text.

    `reason` is one line, fit for a SUBACK reason string; `str()` adds the text and a caret below the place.
    """

    def __init__(self, reason: str, text: str = "", start: int = 0, end: int | None = None) -> None:
        self.reason = reason = "".join(c if c.isprintable() else "�" for c in reason)
        """What is wrong and what was expected, in one line."""
        self.text = text
        """The filter as it was given; empty when it is too long to be shown."""
        self.start = start
        """Offset of the first character that is wrong."""
        self.end = max(start + 1, end if end is not None else start + 1)
        """Offset behind the last character that is wrong."""
        super().__init__(reason)

    def __str__(self) -> str:
        if not self.text:
            return self.reason
        line_start = self.text.rfind("\n", 0, self.start) + 1
        line_end = self.text.find("\n", self.start)
        line = self.text[line_start : line_end if line_end >= 0 else len(self.text)]
        # Long lines are cut around the place, so that the caret stays in sight.
        cut = max(0, self.start - line_start - 60)
        # One column for each character, or the caret would be elsewhere.
        shown = "".join(c if c.isprintable() else " " for c in line[cut : cut + 120])
        at = self.start - line_start - cut
        width = max(1, min(self.end - self.start, len(shown) - at))
        return f"{self.reason}\n  {shown}\n  {' ' * at}{'^' * width}"


class FilterTooCostly(FilterError):
    """A filter that is understood but breaks a limit; the reason names the limit."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a declaration."""

    message: str
    """The value, the rule and the way out."""

    line: int | None = None
    """Where in the file, counted from 1; None when the declaration did not come from a file."""


class DeclarationError(InputError):
    """A topic declaration with everything that is wrong with it."""

    def __init__(self, problems: list[Problem], source: str = "declaration") -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__(
            "\n".join(
                f"{source}:{problem.line}: {problem.message}"
                if problem.line is not None
                else f"{source}: {problem.message}"
                for problem in problems
            )
        )


class ConfigurationError(InputError):
    """Settings of a broker with everything that is wrong with them."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        """Each with its place: a file and line, a variable or a flag."""
        super().__init__("\n".join(problems))


class PayloadError(InputError):
    """A report or an event that is refused as a whole; nothing of it was taken."""


class SubscriptionError(InputError):
    """A subscription that cannot be added or removed as asked."""


class AccessError(InputError):
    """A broker knows of nobody with this name and password, or does not allow what was asked."""


class NetworkError(TidingsError):
    """No broker can be reached, one does not answer in time, or it cannot take what was sent."""


class DataLost(NetworkError):
    """Entries of a log that were asked for are kept no more; asking again does not help."""

    def __init__(self, message: str, first: int | None = None) -> None:
        super().__init__(message)
        self.first = first
        """The oldest entry that is still kept, where it is known."""


class PeerError(TidingsError):
    """The other side of a connection does not keep to the protocol; nothing but that connection is lost."""


class SetupError(TidingsError):
    """The machine lacks something that we need; the message says how to get it."""


class ForeignPackage(SetupError):
    """An unrelated package has installed a module `tidings` where ours should be."""


def alone(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What one of tasks says that failed together, if it is for the user; they all say the same.

    Not `except*`: what is raised there is in a group again, in some Pythons even when it is alone.
    """
    error: BaseException = group.split(TidingsError)[0] or group
    while error is not group and isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
