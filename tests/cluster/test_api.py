"""The examples of docs/api.md that need a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.doc_examples import examples

pytestmark = pytest.mark.cluster


@pytest.mark.timeout(600)
def test_the_examples_that_need_a_cluster_run_and_print_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(examples("api.md", cluster=True), "api.md", "exec"), {})  # noqa: S102
    assert capfd.readouterr().out == ""
    (directory,) = (tmp_path / "runs").iterdir()
    assert (directory / "report.html").is_file()
