"""What Spark looks for: it imports every module called `pyspark_…` and registers the `DefaultSource` in it,
so that `format("tidings")` works in any session. All of it is in `tidings.pipeline.connector.source`.

An error here would keep Spark from finding the sources of others. So on a Spark that is too old the source is
there all the same, and says what it needs when it is used.
"""

from __future__ import annotations

from typing import Any

from tidings.errors import SetupError
from tidings.installation import install

OLDEST = (4, 2)
"""The first Spark whose Python sources are told how much to read (`ReadLimit`) and may be written to in Arrow
batches by streams."""

try:
    import pyspark
    from pyspark.sql.datasource import DataSource
except ImportError as error:
    raise SetupError(
        f"the format `tidings` needs Spark {OLDEST[0]}.{OLDEST[1]} or newer, and {error.name or 'pyspark'!r} "
        f"is not there: {install('spark')}"
    ) from error


def fault_of(version: str) -> str | None:
    """Why this Spark will not do; None if it will.

    >>> fault_of("4.3.0"), fault_of("4.10.1.dev0")
    (None, None)
    >>> fault_of("4.1.1")
    "the format `tidings` needs Spark 4.2 or newer, and this is 4.1.1: pip install ...[spark]..."
    """
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers >= OLDEST:
        return None
    return (
        f"the format `tidings` needs Spark {OLDEST[0]}.{OLDEST[1]} or newer, and this is {version}: "
        f"{install('spark')}"
    )


class TooOld(DataSource):
    """Stands in for the source on a Spark that cannot run it."""

    fault = ""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise SetupError(self.fault)

    @classmethod
    def name(cls) -> str:
        return "tidings"


DefaultSource: type[DataSource]
if fault := fault_of(pyspark.__version__):
    TooOld.fault = fault
    DefaultSource = TooOld
else:
    from tidings.pipeline.connector.source import TidingsSource

    DefaultSource = TidingsSource
