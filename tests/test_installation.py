"""A package of others in our place is named, with the way out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tidings
from tidings import installation
from tidings.errors import ForeignPackage, SetupError


def install(folder: Path, name: str, version: str) -> None:
    """Write what a package manager leaves of a distribution."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
    )


def test_nothing_foreign_is_installed_here() -> None:
    installation.check()


def test_our_own_distribution_is_not_foreign(tmp_path: Path) -> None:
    install(tmp_path, "tidings-network", "0.1.0")
    install(tmp_path, "tidings-of-joy", "1.0")
    installation.check(path=[str(tmp_path)])


@pytest.mark.parametrize("name", ["django-tidings", "tidings"])
def test_a_foreign_distribution_is_named_with_the_way_out(tmp_path: Path, name: str) -> None:
    install(tmp_path, "tidings-network", "0.1.0")
    install(tmp_path, name, "2.0.1")
    with pytest.raises(ForeignPackage) as caught:
        installation.check(path=[str(tmp_path)])
    message = str(caught.value)
    assert f"{name} 2.0.1 is installed in {tmp_path}" in message
    assert f"pip uninstall {name} && pip install --force-reinstall --no-deps ." in message


def module(file: Path, **names: str) -> ModuleType:
    made = ModuleType("tidings")
    made.__file__ = str(file)
    vars(made).update(names)
    return made


def test_a_folder_of_that_name_that_comes_first_is_named(tmp_path: Path) -> None:
    other = tmp_path / "tidings" / "__init__.py"
    with pytest.raises(
        ForeignPackage, match=r"finds .*/tidings/__init__\.py, which is not that of tidings-network"
    ):
        installation.check(path=[], module=module(other, __version__="2.0"))


def command(*path: Path) -> subprocess.CompletedProcess[str]:
    """What the installed command does, with these folders first on the path."""
    return subprocess.run(
        [sys.executable, "-c", "from tidings_network import main; main()", "--version"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["tidings/__init__.py", "tidings.py"])
def test_the_command_names_what_hides_it(tmp_path: Path, root: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    told = command(tmp_path)
    assert told.returncode == 2
    ours = root / "src" / "tidings" / "__init__.py"
    assert told.stderr == (
        f"tidings: `import tidings` finds {tmp_path / name}, and not {ours}. "
        "Rename or remove it, or take its folder off PYTHONPATH\n"
    )


def test_a_folder_without_a_package_in_it_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "tidings").mkdir()
    assert command(tmp_path).stdout == f"tidings-network {tidings.__version__}\n"


def test_the_command_names_a_file_of_others_in_our_folder(tmp_path: Path, root: Path) -> None:
    for package in ("tidings", "tidings_network"):
        (tmp_path / package).mkdir()
        for inside in (root / "src" / package).iterdir():
            (tmp_path / package / inside.name).symlink_to(inside)
    theirs = tmp_path / "tidings" / "__init__.py"
    theirs.unlink()
    theirs.touch()
    told = command(tmp_path)
    assert told.returncode == 2
    assert f"finds {theirs}, which is not that of tidings-network" in told.stderr


def test_a_file_of_others_in_our_folder_is_named() -> None:
    ours = Path(installation.__file__).with_name("__init__.py")
    installation.check(path=[], module=module(ours, __version__="0.1.0"))
    with pytest.raises(ForeignPackage, match="which is not that of tidings-network"):
        installation.check(path=[], module=module(ours))


def test_the_cache_is_where_xdg_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert installation.cache_folder() == tmp_path / "tidings"


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_the_cache_is_in_the_home_folder_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert installation.cache_folder() == tmp_path / ".cache" / "tidings"


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(SetupError, match="set XDG_CACHE_HOME"):
        installation.cache_folder()
