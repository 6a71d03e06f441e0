"""Files of settings are read as Java reads them. A test in tests/spark compares random files with Java itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.core.java_properties import read_properties

CASES: dict[str, tuple[str, dict[str, str | None]]] = {
    "separators": ("a=1\nb:2\nc 3\nd\t=\f4\ne : = 5\n", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "= 5"}),
    "comments": ("# a=1\n  ! b=2\nc=#3\n", {"c": "#3"}),
    "a backslash does not continue a comment": ("# a \\\nb=2\n", {"b": "2"}),
    "a continued line": ("a = 1,\\\n    2,\\\r\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
    "near miss: an escaped backslash at the end": ("a=1\\\\\nb=2\n", {"a": "1\\", "b": "2"}),
    "a line that continues with nothing": ("a=1\\\n\nb=2\\", {"a": "1", "b": "2"}),
    "a continued line is no comment": ("a=1\\\n#2\n", {"a": "1#2"}),
    "escapes": (r"a\:b\=c\ d=\t\n\\\q\u00e4\ud83d\ude00", {"a:b=c d": "\t\n\\q\u00e4\U0001f600"}),
    "no value": ("a=\nb", {"a": "", "b": None}),
    "blanks at the end stay": ("a=1 \n", {"a": "1 "}),
    "the last one counts": ("a=1\na=2\n", {"a": "2"}),
    "bytes are Latin-1": ("a=\u00e4\n", {"a": "\u00e4"}),
}


@pytest.mark.parametrize("case", CASES)
def test_settings_are_read_as_java_reads_them(case: str, tmp_path: Path) -> None:
    text, meant = CASES[case]
    path = tmp_path / "client.properties"
    path.write_bytes(text.encode("latin-1"))
    assert {name: value for _, name, value in read_properties(path)} == meant


def test_each_setting_has_the_number_of_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# mine\na=1\\\n2\n\nb=3\n")
    assert [number for number, _, _ in read_properties(path)] == [2, 5]


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12g4", r"\u=1"])
def test_an_escape_that_java_refuses_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"\n{text}\n")
    with pytest.raises(ValueError, match="line 2"):
        list(read_properties(path))
