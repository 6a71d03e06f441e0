"""The choice of Java. Each Java home is a release file and a program that prints the wanted version."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.core.errors import CannotHere
from ackproof.host import java
from ackproof.host.java import find_java


def home_of(place: Path, version: str, *, release: bool = True, works: bool = True) -> Path:
    program = place / "bin" / "java"
    program.parent.mkdir(parents=True)
    said = f"echo 'openjdk version \"{version}\"' >&2"
    program.write_text(f"#!/bin/sh\n{said if works else 'exit 127'}\n")
    program.chmod(0o755)
    if release:
        (place / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return place


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(java, "PLACES", (tmp_path / "jvm",))


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home_of(tmp_path / "mine", "21.0.2")))
    monkeypatch.setenv("PATH", str(home_of(tmp_path / "other", "17.0.1") / "bin"))
    found = find_java()
    assert (found.home, found.path) == (tmp_path / "mine", tmp_path / "mine" / "bin" / "java")
    assert (found.version, found.text) == (21, "21.0.2")


@pytest.mark.proves("E2", "E3")
@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16.0.1", "23", "25.0.3"])
def test_a_java_home_that_does_not_fit_is_told_with_one_that_does(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home_of(tmp_path / "mine", version)))
    usable = home_of(tmp_path / "jvm" / "java-17", "17.0.15")
    with pytest.raises(CannotHere) as caught:
        find_java()
    assert f"JAVA_HOME={tmp_path}/mine is Java {version}" in caught.value.message
    assert "need Java 17 to 22" in caught.value.message
    assert f"set JAVA_HOME={usable}" in caught.value.message


def test_a_java_home_without_java_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(CannotHere, match=r"holds no Java that works.*apt install"):
        find_java()


@pytest.mark.parametrize("version", ["17", "22.0.1"])
def test_the_path_serves_where_there_is_no_java_home(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_of(tmp_path / "here", version)
    link = tmp_path / "bin"
    link.mkdir()
    (link / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(link))
    assert find_java().home == home


@pytest.mark.parametrize("named_by", ["PATH", "JAVA_HOME"])
def test_without_a_release_file_the_program_is_asked(
    named_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_of(tmp_path / "here", "17.0.9", release=False)
    monkeypatch.setenv(named_by, f"{home}/bin" if named_by == "PATH" else str(home))
    assert find_java().text == "17.0.9"


def test_java_8_called_itself_one_point_eight(tmp_path: Path) -> None:
    old = java._at(home_of(tmp_path / "old", "1.8.0_392"))
    assert old is not None
    assert old.version == 8


def test_a_shim_that_fails_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = home_of(tmp_path / "shim", "17", release=False, works=False)
    good = home_of(tmp_path / "good", "17.0.9")
    monkeypatch.setenv("PATH", f"{shim}/bin:{good}/bin")
    assert find_java().home == good


def test_where_the_path_does_not_fit_the_newest_fitting_package_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{home_of(tmp_path / 'new', '25.0.3')}/bin")
    for version in ("17.0.15", "21.0.4", "25.0.3"):
        home_of(tmp_path / "jvm" / version, version)
    assert find_java().text == "21.0.4"


@pytest.mark.proves("E2", "E3")
def test_no_java_at_all_says_what_to_install() -> None:
    with pytest.raises(CannotHere, match=r"No Java was found.*apt install"):
        find_java()
