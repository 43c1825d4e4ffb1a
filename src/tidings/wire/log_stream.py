"""Rows of a log as they travel over HTTP: an Arrow IPC stream that says where it ends.

An Arrow stream that is cut between two batches looks like one that has ended. So each batch says in its
metadata how far it goes (`tidings.next`, the number of the first entry not yet in the stream), and the last
message is an empty batch with `tidings.end`, or with `tidings.fault` and a reason where the sender could not
go on. Any reader of Arrow streams gets the right rows from a whole answer; `read` here tells a whole one from
a cut one. What the rows are is not known here, nor what a socket is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from tidings.errors import NetworkError

if TYPE_CHECKING:
    import pyarrow as pa

CONTENT_TYPE = "application/vnd.apache.arrow.stream"

NEXT = "tidings.next"
END = "tidings.end"
FAULT = "tidings.fault"

REASON_CHARACTERS_MAX = 500


class _Sink:
    """Where pyarrow writes; the bytes are taken away piece by piece."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._position = 0

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._position += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Everything is written already."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class StreamWriter:
    """Turns batches into the bytes of a stream, each to be sent in its order."""

    def __init__(self, schema: pa.Schema) -> None:
        import pyarrow as pa

        self._schema = schema
        self._sink = _Sink()
        self._writer = pa.ipc.new_stream(self._sink, schema)

    def batch(self, batch: pa.RecordBatch, following: int) -> bytes:
        """A batch, with the number of the first entry behind it; rows may be fewer than numbers."""
        self._writer.write_batch(batch, custom_metadata={NEXT: str(following)})
        return self._sink.take()

    def end(self, following: int) -> bytes:
        """Everything up to this number has been sent."""
        return self._last({NEXT: str(following), END: str(following)})

    def fault(self, reason: str) -> bytes:
        """No more will come, though there is more."""
        return self._last({FAULT: reason[:REASON_CHARACTERS_MAX]})

    def _last(self, metadata: dict[str, str]) -> bytes:
        import pyarrow as pa

        empty = pa.RecordBatch.from_pylist([], schema=self._schema)
        self._writer.write_batch(empty, custom_metadata=metadata)
        self._writer.close()
        return self._sink.take()


class Readable(Protocol):
    """What is asked of a file; OSError says that it is cut."""

    @property
    def closed(self) -> bool: ...
    def read(self, size: int = -1, /) -> bytes: ...
    def readable(self) -> bool: ...
    def seekable(self) -> bool: ...
    def close(self) -> None: ...


def read(file: Readable) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The batches of a stream, each with the number that follows it.

    NetworkError where it is cut, or its sender could not go on: what came until then is right, and the last
    number says where to go on.
    """
    import pyarrow as pa

    try:
        # The file is the response of a server, whose reading may fail in more ways than Arrow knows.
        with pa.ipc.open_stream(file) as stream:
            while True:
                found = stream.read_next_batch_with_custom_metadata()
                metadata = found.custom_metadata
                if metadata is not None and FAULT in metadata:
                    raise NetworkError(metadata[FAULT].decode("utf-8", "replace"))
                if metadata is None or NEXT not in metadata:
                    raise NetworkError("a batch does not say which entries it holds: no log of a broker")
                yield found.batch, int(metadata[NEXT])
                if END in metadata:
                    return
    except StopIteration:
        raise NetworkError("the answer was cut off between two batches") from None
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise NetworkError(f"the answer was cut off: {error}") from None
