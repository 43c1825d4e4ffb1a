"""The one place where a Spark session is made.

Every job of the pipeline is given a session, or DataFrames that have one; only the edges (commands, tests,
papers) make it, and they make it here. The same code runs on a laptop and on a cluster: the master is an
argument, and settings that only make sense on one machine are made only there. Where a program has a session
already, as in a notebook, ours is a second one beside it.

Nothing is downloaded and nothing is left behind: the environment that Spark's launcher reads is changed while
it starts, and put back.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tidings import installation
from tidings.errors import InputError, SetupError
from tidings.pipeline.java import java_home

if TYPE_CHECKING:
    from typing import TypeAlias

    from pyspark.sql import SparkSession

    Session: TypeAlias = SparkSession
    """What a session is called by those who may not import pyspark."""

LOOPBACK = "127.0.0.1"

# The same everywhere, because results depend on them or because they are a matter of taste.
ALWAYS = {
    # Our field names are case sensitive, in brokers and here.
    "spark.sql.caseSensitive": "true",
    # A timestamp means the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    # Spark would write INT96, which everyone else reads as times without a zone.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark would look at the bytes of a batch after every row, a fifth of what it takes to hand rows to
    # Python. Fewer rows bound the bytes too: so many of a mebibyte each, the largest of events, are 2 GB.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.sql.adaptive.enabled": "true",
    # Filters go to the brokers where the option `pushdown` of the format `tidings` asks for it.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

MASTER_PORT = 7077
"""Where the master of a standalone cluster listens unless told otherwise."""

CONNECT_PORT = 15002
"""Where a server of Spark Connect listens unless told otherwise."""

ANSWER_S_MAX = 10.0
"""A server that takes no connection for so long will not."""

INTERRUPTED = (
    "KeyboardInterrupt while sending command.",  # at the root of all loggers
    "Exception occurred while shutting down connection",
)
"""What py4j logs when a call is interrupted."""

# A JVM that starts fast and stays slow: one compiler tier, one collector thread. It saves about a sixth of a
# test run, and costs real jobs more than that.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def start(
    app: str = "tidings",
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    quick_start: bool = False,
) -> SparkSession:
    """Start Spark; where this process runs Spark already, make a session of our own beside the one there.

    The master is `local[…]`, `spark://host:port`, `k8s://https://host:port`, `yarn`, or `sc://host:port`, a
    server of Spark Connect. `settings` are Spark's own (`spark.…`) and win over ours; with `spark.api.mode =
    connect` this process is a Connect server too and speaks to itself, whatever the master. `quick_start` is
    for tests and short jobs: it starts a JVM that is up sooner and runs slower. Raises `SetupError` when
    Spark or a Java for it is not installed, `InputError` for a master that nobody knows.

    Inside `spark-submit` the JVM is already there, and with it its master, its Java and its memory; then
    `master` and what concerns the machine are left as they are. So they are beside another session, whose
    settings, views and functions are its own; to stop ours leaves Spark running for it.
    """
    check_master(master)
    given = dict(settings or {})
    try:
        from pyspark.sql import SparkSession

        if is_connect(master, given):
            import pyspark.sql.connect.session  # noqa: F401  its absence is said here, and by its name
    except ImportError as error:
        raise installation.absent("the pipeline", error.name or "pyspark", extra="spark") from error
    builder = SparkSession.builder.appName(app)
    if is_server(master):
        return connected(builder.remote(master), master, given)
    if (other := running()) is not None:
        return beside(other, given)
    for name, value in ALWAYS.items():
        builder = builder.config(name, value)
    if submitted():
        for name, value in given.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    builder = builder.master(master)
    if is_connect(master, given):
        # The server in this process is for this process; a token keeps others out, and so does loopback.
        given.setdefault("spark.connect.grpc.binding.address", LOOPBACK)
    for name, value in {**machine_settings(master, quick_start), **given}.items():
        builder = builder.config(name, value)
    with environment(launch_environment(master)), warnings.catch_warnings():
        # A Connect client sets what the server was started with once more, and warns of all that a session
        # cannot change.
        warnings.filterwarnings("ignore", "Failed to set", UserWarning)
        return started(builder, master)


def running() -> SparkSession | None:
    """The session that this process has, if Spark runs in it; of a context without one, its default."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    if is_remote():
        try:
            return SparkSession.active()
        except PySparkRuntimeError:
            return None
    context = SparkContext._active_spark_context
    return None if context is None else SparkSession(context)


def beside(other: SparkSession, given: Mapping[str, str]) -> SparkSession:
    """A session with settings of its own on the Spark of another, which stays as it is."""
    from pyspark.sql.utils import is_remote

    session = other.newSession()

    def leave() -> None:
        """Spark is the other's to stop."""
        if is_remote():
            session.client.release_session()
            session.client.close()
        else:
            # Spark calls the session active in which data was made last.
            other.createDataFrame([], "nothing int")

    session.stop = leave  # type: ignore[method-assign]
    configure(session, given, "Spark that runs in this process already")
    return session


def configure(session: SparkSession, given: Mapping[str, str], where: str) -> None:
    """Set what is ours and what is given in a session on Spark that somebody else has started."""
    from pyspark.errors import PySparkException

    # The rest is not a session's: there is a page or none.
    for name, value in ALWAYS.items():
        if name.startswith("spark.sql."):
            session.conf.set(name, value)
    for name, value in given.items():
        try:
            if session.conf.get(name, None) != value:
                session.conf.set(name, value)
        except PySparkException as error:
            session.stop()
            raise InputError(
                f"{name} = {value!r} is not taken by {where}: {first_line(error)}. Leave it out, or set it "
                f"where that is started"
            ) from error


def started(builder: SparkSession.Builder, master: str) -> SparkSession:
    """A session with a JVM of its own."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if master.startswith("spark://"):
        check_answers(master, MASTER_PORT, "a master of Spark")
    # Added once, however many sessions are started.
    for logger in (logging.getLogger(), logging.getLogger("py4j.clientserver")):
        logger.addFilter(unless_interrupted)
    try:
        with interrupts_kept():
            return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise SetupError(
            f"Spark does not start on {master}: {java_line(error)}. What a master needs is in the "
            f"documentation of the pipeline"
        ) from error


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Let Ctrl-C mean what it meant before, and signals wait until Spark is there.

    PySpark puts a handler of its own in the place of whatever the program had. Its handler speaks to the JVM
    in the middle of another call, which then fails with pages of its own. Who stops the session, and all who
    get it from here do, ends its jobs anyway.

    An exception while PySpark waits for its JVM makes it remove the folder through which the JVM tells its
    port. The JVM then stays for ever, because only behind that does it look whether we are still there.
    """
    came: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # None is a handler that was not put there by Python, and that Python cannot put back.
            if (handler := signal.getsignal(number)) is not None:
                handlers[number] = handler
            # What is ignored stays so, and what ends the process at once does.
            if callable(handler):
                signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def unless_interrupted(record: logging.LogRecord) -> bool:
    """Whether a line is to be logged: py4j logs every Ctrl-C with all the places where."""
    return not (record.msg in INTERRUPTED and "py4j" in record.pathname)


def connected(builder: SparkSession.Builder, master: str, given: Mapping[str, str]) -> SparkSession:
    """A session on a server of Spark Connect, which has its own Java, memory and logs."""
    from pyspark.errors import PySparkException
    from pyspark.sql.utils import is_remote

    check_answers(master, CONNECT_PORT, "a server of Spark Connect")
    try:
        session = builder.create() if is_remote() else builder.getOrCreate()
        configure(session, given, f"the server at {master}")
    except PySparkException as error:
        raise SetupError(
            f"no session at {master}: {first_line(error)}. Is a Connect server there? How to start one "
            f"is in the documentation of the pipeline"
        ) from error
    return session


def first_line(error: Exception) -> str:
    """What an error of a server says, without the pages of Java behind it."""
    return str(error).partition("\n")[0].strip().rstrip(".")


def java_line(error: Exception) -> str:
    """What an error of the JVM says, without where it was."""
    lines = [line.strip(": \t") for line in str(error).splitlines() if line.strip()]
    told = [
        line.partition(": ")[2] or line for line in lines if line.startswith(("org.apache.spark", "java."))
    ]
    return (told or lines or [type(error).__name__])[0].rstrip(".")


def check_answers(master: str, port: int, what: str) -> None:
    """See that somebody listens: Spark itself would try for minutes before it says anything."""
    # A standalone cluster may have several masters, of which one leads: spark://one:7077,two:7077.
    scheme, _, rest = master.partition("/;")[0].partition("://")
    for number, place in enumerate(places := rest.split(","), 1):
        try:
            address = urlsplit(f"{scheme}://{place}")
            where = address.hostname or "", address.port or port
            socket.create_connection(where, timeout=ANSWER_S_MAX).close()
        except (OSError, ValueError) as error:
            if number == len(places):
                raise SetupError(
                    f"nobody answers at {master}: {error}. Start {what} there, as the documentation "
                    f"of the pipeline shows, or name another"
                ) from error
        else:
            return


MASTERS = re.compile(
    r"local(\[\s*(\*|[1-9][0-9]*)\s*(,\s*[0-9]+\s*)?\])?|local-cluster\[[0-9, ]+\]|yarn"
    r"|(spark|k8s|sc)://.+"
)


def check_master(master: str) -> None:
    """Refuse what Spark would refuse, with what there is."""
    if not MASTERS.fullmatch(master):
        raise InputError(
            f"master {master!r} is unknown; give local[*], local[N], spark://HOST:PORT, "
            f"k8s://https://HOST:PORT, yarn, or sc://HOST:PORT for a server of Spark Connect"
        )


def submitted() -> bool:
    """Whether `spark-submit` started this program, and so the JVM before it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_local(master: str) -> bool:
    """Whether all of Spark runs in one process on this machine: "local", "local[4]", "local[*, 3]"."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def is_server(master: str) -> bool:
    """Whether the master is a server of Spark Connect."""
    return master.startswith("sc://")


def is_connect(master: str, settings: Mapping[str, str]) -> bool:
    """Whether the session will speak Spark Connect: to a server, or to one in this process."""
    return is_server(master) or settings.get("spark.api.mode") == "connect"


def is_loopback(master: str) -> bool:
    """Whether the master is on this machine and listens to nobody else."""
    if is_local(master):
        return True
    match = re.fullmatch(r"spark://(\[.+\]|[^:,]+)(:\d+)?", master)
    return match is not None and (match[1] in ("localhost", "[::1]") or match[1].startswith("127."))


def machine_settings(master: str, quick_start: bool = False) -> dict[str, str]:
    """What depends on where Spark runs."""
    options = [f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"]
    if quick_start:
        options.append(QUICK_START)
    settings = {"spark.driver.extraJavaOptions": " ".join(options)}
    if is_loopback(master):
        # Nobody else needs to reach us, and a laptop's own name often leads nowhere.
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    if is_local(master):
        settings |= {
            "spark.driver.memory": f"{driver_memory_mb(memory_mb())}m",
            # The default of 200 is for clusters: small data then spends its time on starting empty tasks.
            # Adaptive execution makes fewer of these where data is small; four for each core leave it room
            # where it is not.
            "spark.sql.shuffle.partitions": str(4 * core_count(master)),
        }
    return settings


def core_count(master: str) -> int:
    """How many tasks a local master runs at once."""
    match = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,.*)?\])?", master)
    assert match is not None, f"{master!r} is a local master"
    if match[1] is None:
        return 1
    return (os.cpu_count() or 1) if match[1] == "*" else int(match[1])


def driver_memory_mb(machine_mb: int) -> int:
    """Half of the machine: the Python workers live beside the JVM and need the other half.

    At least Spark's own default of 1 GB, at most 31 GB, above which the JVM's pointers grow to eight bytes.
    """
    return min(max(machine_mb // 2, 1024), 31 * 1024)


def memory_mb() -> int:
    """The memory of this machine, or of the container that we run in, whichever is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [physical]
    # The limit of a control group, version 2 and version 1; "max" or a number beyond all memory mean none.
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(file).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            limits.append(int(text))
    return min(limits) // 2**20


def launch_environment(master: str) -> dict[str, str]:
    """What Spark's launcher and its Python workers read from the environment."""
    # Workers must be this Python: the system's has another version, or no pyarrow. On a cluster the one who
    # set it up knows better.
    python = sys.executable if is_local(master) else os.environ.get("PYSPARK_PYTHON", sys.executable)
    variables = {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if is_loopback(master):
        # `spark.driver.host` is not enough: the launcher looks the machine's name up before it reads it.
        variables["SPARK_LOCAL_IP"] = LOOPBACK
    return variables


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
