"""The session: what it is set to, and that it leaves nothing behind."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidings.errors import InputError, SetupError
from tidings.pipeline import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*]", "local[2,3]"])
def test_local_masters(master: str) -> None:
    assert session.is_local(master)
    assert session.machine_settings(master)["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://host", "local-cluster[2,1,1024]"])
def test_other_masters_keep_their_own_settings(master: str) -> None:
    assert not session.is_local(master)
    assert list(session.machine_settings(master)) == ["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize("master", ["spark://127.0.0.1:7077", "spark://localhost:7077", "spark://[::1]:7077"])
def test_with_a_master_on_loopback_the_driver_is_there_too(
    master: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session, "java_home", lambda: tmp_path)
    settings = session.machine_settings(master)
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.memory" not in settings
    assert session.launch_environment(master)["SPARK_LOCAL_IP"] == "127.0.0.1"


@pytest.mark.parametrize(
    "master", ["spark://10.0.0.1:7077", "spark://127x:7077,other:7077", "sc://localhost"]
)
def test_other_machines_must_reach_the_driver(master: str) -> None:
    assert "spark.driver.host" not in session.machine_settings(master)


@pytest.mark.parametrize("master", ["", "local2", "mesos://host", "http://host", "spark://", "local[2"])
def test_an_unknown_master_is_refused_with_those_there_are(master: str) -> None:
    with pytest.raises(InputError, match=r"is unknown; give local\[\*\].*sc://HOST:PORT"):
        session.start(master=master)


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(SetupError, match=rf"nobody answers at sc://127.0.0.1:{port}/;token=x: .*refused"):
        session.start(master=f"sc://127.0.0.1:{port}/;token=x")


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[ 2 , 5]", 2), ("local[*]", os.cpu_count())]
)
def test_core_count(master: str, cores: int) -> None:
    assert session.core_count(master) == cores


@pytest.mark.parametrize(("machine", "driver"), [(512, 1024), (8_000, 4_000), (256_000, 31 * 1024)])
def test_the_driver_gets_half_of_the_machine_within_bounds(machine: int, driver: int) -> None:
    assert session.driver_memory_mb(machine) == driver


def test_the_machine_has_memory() -> None:
    assert session.memory_mb() > 0


def test_workers_are_this_python_and_on_a_cluster_the_one_that_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session, "java_home", lambda: tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/cluster/python")
    assert session.launch_environment("local[*]") == {
        "JAVA_HOME": str(tmp_path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    assert session.launch_environment("yarn")["PYSPARK_PYTHON"] == "/opt/cluster/python"


def test_the_environment_is_put_back_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_A", "old")
    monkeypatch.delenv("TIDINGS_B", raising=False)

    def fail_inside() -> None:
        with session.environment({"TIDINGS_A": "new", "TIDINGS_B": "new"}):
            raise KeyError(os.environ["TIDINGS_A"], os.environ["TIDINGS_B"])

    with pytest.raises(KeyError, match=r"'new', 'new'"):
        fail_inside()
    assert os.environ["TIDINGS_A"] == "old"
    assert "TIDINGS_B" not in os.environ


def test_without_spark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SetupError, match=r"needs pyspark\.sql, .*pip install '\.\[spark\]'"):
        session.start()


@pytest.mark.spark
def test_results_do_not_depend_on_the_machine(spark: SparkSession) -> None:
    assert {name: spark.conf.get(name) for name in session.ALWAYS} == session.ALWAYS
    row = spark.sql(
        "SELECT a, A, CAST(t AS STRING) FROM VALUES (1, 2, TIMESTAMP '2026-11-15T00:00:00Z') AS v(a, A, t)"
    )
    assert [tuple(found) for found in row.collect()] == [(1, 2, "2026-11-15 00:00:00")]


@pytest.fixture
def of_others(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with settings that are not ours, as a notebook has it."""
    theirs = {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.caseSensitive": "false",
        "spark.sql.shuffle.partitions": "77",
    }
    before = {name: str(spark.conf.get(name)) for name in theirs}
    for name, value in theirs.items():
        spark.conf.set(name, value)
    yield spark
    assert {name: spark.conf.get(name) for name in theirs} == theirs
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.spark
def test_a_session_of_others_is_neither_changed_nor_stopped(of_others: SparkSession) -> None:
    of_others.createDataFrame([(1,)], "a int").createOrReplaceTempView("theirs")
    with session.start(master="local[2]", settings={"spark.sql.shuffle.partitions": "3"}) as ours:
        assert ours.sparkContext is of_others.sparkContext
        ours_too = {name: value for name, value in session.ALWAYS.items() if name.startswith("spark.sql.")}
        assert {name: ours.conf.get(name) for name in ours_too} == ours_too
        assert ours.conf.get("spark.sql.shuffle.partitions") == "3"
        ours.createDataFrame([(1, 2)], "a int, A int").createOrReplaceTempView("theirs")
        assert ours.table("theirs").columns == ["a", "A"]
    assert of_others.sql("SELECT A FROM theirs").collect() == [(1,)]
    assert of_others.getActiveSession() is not ours
    assert of_others.sql("SELECT current_timezone()").first() == ("Asia/Tokyo",)


@pytest.mark.spark
def test_what_concerns_the_spark_that_runs_is_said_to_be_set_already(of_others: SparkSession) -> None:
    memory = of_others.conf.get("spark.driver.memory")
    with session.start(settings={"spark.driver.memory": str(memory)}) as ours:
        assert ours is not of_others
    with pytest.raises(
        InputError, match=r"^spark.driver.memory = '3g' is not taken by Spark that runs in this"
    ):
        session.start(settings={"spark.driver.memory": "3g"})


def test_interrupts_mean_what_they_meant_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with session.interrupts_kept():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_until_spark_has_started(number: signal.Signals) -> None:
    """PySpark would leave a Java process behind for ever if it were raised in between."""

    def stop(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    steps = []

    def start() -> None:
        with session.interrupts_kept():
            signal.raise_signal(number)
            steps.append("started")

    before = signal.signal(number, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert steps == ["started"]
        assert signal.getsignal(number) is stop
    finally:
        signal.signal(number, before)


def test_spark_has_put_no_handler_in_place_of_ours(spark: SparkSession) -> None:
    handler = signal.getsignal(signal.SIGINT)
    assert spark.version
    assert getattr(handler, "__module__", "") != "pyspark.core.context"


def test_an_interrupt_in_a_call_to_spark_is_not_logged_with_all_its_places(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    under_way = spark.sparkContext.statusTracker()
    ended = threading.Event()

    def interrupt() -> None:
        while not ended.wait(0.01):
            if under_way.getActiveJobsIds():
                os.kill(os.getpid(), signal.SIGINT)
                return

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    endless = spark.range(1).selectExpr("reflect('java.lang.Thread', 'sleep', 60000L)")
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            endless.collect()
    finally:
        ended.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
        spark.sparkContext.cancelAllJobs()
    assert caplog.records == []


def test_what_py4j_says_of_an_interrupt_is_not_logged_and_other_lines_are() -> None:
    def line(path: str, text: str) -> logging.LogRecord:
        return logging.LogRecord("root", logging.ERROR, path, 1, text, None, None)

    for text in session.INTERRUPTED:
        assert not session.unless_interrupted(line("/lib/py4j/java_gateway.py", text))
    assert session.unless_interrupted(line("/lib/py4j/java_gateway.py", "Cannot authenticate"))
    assert session.unless_interrupted(line("/our/own.py", "KeyboardInterrupt while sending command."))


def test_an_error_of_the_jvm_is_one_line() -> None:
    said = "Error while calling None.X.\n: org.apache.spark.SparkException: no scheduler.\n\tat a.b(c)\n"
    assert session.java_line(RuntimeError(said)) == "no scheduler"
    said = "Error while calling o1.parquet.\n: java.lang.InterruptedException\n\tat a.b(c)\n"
    assert session.java_line(RuntimeError(said)) == "java.lang.InterruptedException"
    assert session.java_line(RuntimeError("all went wrong.\nand more")) == "all went wrong"
    assert session.java_line(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2", "sc://127.0.0.1:1"]
)
def test_a_master_that_does_not_answer_is_named(master: str) -> None:
    with pytest.raises(SetupError, match=f"nobody answers at {master}"):
        session.check_answers(master, 7077, "a master of Spark")


def test_one_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        session.check_answers(f"spark://127.0.0.1:1,127.0.0.1:{port}", 7077, "a master of Spark")


@pytest.mark.parametrize("master", ["local[x]", "local[0]", "local[]", "local[2", "bogus", ""])
def test_what_spark_would_not_take_is_refused(master: str) -> None:
    with pytest.raises(InputError, match="is unknown"):
        session.check_master(master)
