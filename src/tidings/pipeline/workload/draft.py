"""What is in a workload's folder beside its tables: written as a draft first, put in its place at the end."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from tidings.errors import InputError, SetupError
from tidings.local.signals import ENDED_BY, handled
from tidings.pipeline import running
from tidings.records.workload import DECLARATIONS, SPEC_FILE
from tidings.records.workload_files import DIGEST, MADE, digest
from tidings.workload import declarations, reading
from tidings.workload.model import Model


@contextmanager
def drafted(model: Model, out: Path) -> Iterator[Path]:
    """A folder with the declarations of the topics and the spec, written while there is nothing to lose.

    It goes at the end, whatever the end is: SIGTERM and a terminal that is closed end what is inside as an
    error does.
    """
    # Readers compare it with that of the tables: what is put in its place last may not be.
    spec = running.spec_of(model)
    fresh = not out.exists()
    with handled(_ended, (signal.SIGTERM, signal.SIGHUP)):
        try:
            out.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=out))
        except OSError as error:
            raise InputError(f"{out} cannot be written to: {error.strerror}; name another folder") from error
        try:
            (draft / DECLARATIONS).mkdir()
            for name, text in declarations.texts(model).items():
                (draft / DECLARATIONS / name).write_text(text, encoding="utf-8")
            (draft / DECLARATIONS / MADE).write_text(json.dumps({"spec": spec}), encoding="utf-8")
            text = f"{DIGEST}{digest(spec)}\n{reading.written(model.spec)}"
            (draft / SPEC_FILE).write_text(text, encoding="utf-8")
            yield draft
        except OSError as error:
            raise SetupError(
                f"the workload cannot be written to {out}: {error.strerror}; free some space, or name "
                f"another folder"
            ) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            if fresh and not any(out.iterdir()):
                out.rmdir()


def _ended(number: int, _: object) -> NoReturn:
    """End as an error does, so that what has begun is cleaned up. A second signal does not cut that short."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(ENDED_BY + number)


def check_declared(out: Path, overwrite: bool) -> None:
    """Declarations and a spec that are there are only replaced if that was said."""
    for name in (DECLARATIONS, SPEC_FILE):
        if not overwrite and (out / name).exists():
            raise InputError(f"{name!r} is in {out} already; --overwrite replaces it, or name another folder")


def finish(draft: Path, out: Path) -> None:
    """Put the declarations and, last, the spec in their places: two renames."""
    if (out / DECLARATIONS).exists():
        (out / DECLARATIONS).replace(draft / "before")
    (draft / DECLARATIONS).replace(out / DECLARATIONS)
    (draft / SPEC_FILE).replace(out / SPEC_FILE)
