"""What goes to the machines that do the work: this package and files; and whether their Python can use it.

On one machine there is nothing to send. Elsewhere the package goes along as one archive, the same bytes for
the same source, so that workers run the code of the driver and not one that somebody installed a year ago.
What it needs beside itself must be there already. Whether it is, is asked before the first stage: an error in
the middle of a job would come late, and from the depth of Java.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tidings
from tidings.errors import SetupError
from tidings.installation import cache_folder
from tidings.pipeline.session import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("numpy", "pyarrow", "scipy")
"""What Python on workers imports beside this package, for the tables of a workload and for sweeps."""

KERNELS = ("msgspec", "numba", "numpy", "pyarrow", "sqlglot")
"""For gather and match: compiled kernels, and the language of topics and filters. Traffic needs none."""

STATES = (*KERNELS, "google.protobuf", "pandas")
"""For gather in a stream: Spark's own client of a state too."""

ASKED = 32
"""Tasks that ask: enough for most workers to have one, and done in a moment."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of everything in the archive: the earliest that the format knows."""


def send(
    spark: SparkSession, master: str, files: Iterable[Path] = (), needed: Sequence[str] = NEEDED
) -> None:
    """Send the package and files to where the work is done, and check that they can be used there.

    Raises `SetupError` that says what is the matter on which worker. On this machine nothing is sent: its
    workers are this very Python.
    """
    if is_local(master):
        return
    spark.addArtifacts(str(archive()), pyfile=True)
    for file in sorted(set(files)):
        spark.addArtifacts(str(file), file=True)
    check(spark, needed)


def archive(package: Path | None = None, cache: Path | None = None) -> Path:
    """This package as an archive that Python can import from; made if it is not there.

    It stays in the cache, since Spark fetches it from there as long as a session lives.
    """
    made = packed(Path(tidings.__file__).parent if package is None else package)
    folder = (cache_folder() if cache is None else cache) / "shipped"
    file = folder / f"tidings-{hashlib.sha256(made).hexdigest()[:12]}.zip"
    try:
        if not file.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            number, draft = tempfile.mkstemp(dir=folder, prefix="draft-")
            with os.fdopen(number, "wb") as opened:
                opened.write(made)
            Path(draft).replace(file)
    except OSError as error:
        raise SetupError(
            f"the package cannot be packed for workers in {folder}: {error.strerror}. "
            f"Set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    return file


def packed(package: Path) -> bytes:
    """A package as the bytes of an archive, which depend on nothing but its files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file in sorted(package.rglob("*")):
            inside = file.relative_to(package.parent)
            hidden = any(part.startswith(".") or part == "__pycache__" for part in inside.parts)
            if file.is_file() and not hidden:
                entry = zipfile.ZipInfo(inside.as_posix(), EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                zipped.writestr(entry, file.read_bytes())
    return out.getvalue()


def check(spark: SparkSession, needed: Sequence[str] = NEEDED) -> None:
    """Ask workers for their Python and what it can import, and compare."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812

    modules = list(needed)

    # Within a function, so that it travels as code: by name it would need the package that it looks for.
    # Plain, since one in batches would need pyarrow.
    def asked(_: int) -> str:
        import importlib
        import json
        import platform
        import sys

        missing = []
        for name in modules:
            try:
                importlib.import_module(name)
            except ImportError:
                missing.append(name)
        try:
            version = importlib.import_module("tidings").__version__
        except ImportError as error:
            version = f"not importable ({error})"
        return json.dumps([platform.node(), sys.executable, list(sys.version_info[:2]), missing, version])

    ask = F.udf(asked, "string", useArrow=False)
    try:
        rows = spark.range(0, ASKED, 1, ASKED).select(ask("id").alias("said")).distinct().collect()
    except (PySparkException, _java_error()) as error:
        if (reason := python_trouble(str(error))) is not None:
            raise SetupError(f"{reason}. {way_out(modules)}") from error
        raise
    if found := troubles(sorted(row["said"] for row in rows)):
        raise SetupError(f"{'; '.join(found)}. {way_out(modules)}")


def way_out(needed: Sequence[str]) -> str:
    """What to do about workers that lack something."""
    return (
        f"Workers need Python {sys.version_info[0]}.{sys.version_info[1]} with {' and '.join(needed)}; set "
        f"PYSPARK_PYTHON, or spark.pyspark.python, to one that has them"
    )


def troubles(answers: Iterable[str]) -> list[str]:
    """What is the matter with workers, from what they said of themselves."""
    found = []
    for answer in answers:
        node, python, version, missing, package = json.loads(answer)
        where = f"the worker on {node} runs {python}"
        if tuple(version) != sys.version_info[:2]:
            have = ".".join(map(str, version))
            found.append(f"{where}, Python {have}, and this is {sys.version_info[0]}.{sys.version_info[1]}")
        elif missing:
            found.append(f"{where}, which has no {' and no '.join(missing)}")
        elif package != tidings.__version__:
            found.append(f"{where}, where tidings is {package} instead of {tidings.__version__}")
    return found


def python_trouble(text: str) -> str | None:
    """What an error of Spark's says of the Python on a worker; None if it is about something else."""
    if match := re.search(r'Cannot run program "([^"]+)": .*?error=\d+, ([^\n"]+)', text):
        return f"a worker cannot run {match[1]}: {match[2]}"
    if "PYTHON_VERSION_MISMATCH" in text:
        versions = re.search(r"different version: (.+?) than that in driver: (.+?), PySpark", text)
        detail = f": {versions[1]} there, {versions[2]} here" if versions else ""
        return f"the workers' Python is another version than this one{detail}"
    if match := re.search(r"(?:ModuleNotFoundError|ImportError): ([^\n]+)", text):
        return f"the workers' Python fails: {match[1]}"
    return None


def _java_error() -> Any:
    """The exception of errors in Java that Spark does not translate; only where there is Java at all."""
    if util.find_spec("py4j") is None:
        return ()
    from py4j.protocol import Py4JJavaError

    return Py4JJavaError
