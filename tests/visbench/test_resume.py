"""What is written, what is found again, and what makes two runs one."""

from __future__ import annotations

import pytest

from visbench import results
from visbench.errors import UsageError
from visbench.record import run_key


def test_results_are_appended_and_resume_finds_them(run, photos, tmp_path, monkeypatch):
    path = tmp_path / "deep" / "results.jsonl"
    first = run(photos, results=path, C=1.0)
    assert [record.metrics for record in results.read(path)] == [first.metrics]
    monkeypatch.setattr("visbench.features.ensure", lambda *a, **k: pytest.fail("looked for features"))
    again = run(photos, results=path, C=1.0, resume=True)
    assert again.metrics == first.metrics
    assert len(results.read(path)) == 1


@pytest.mark.parametrize(
    "change", [{"C": 2.0}, {"probe": "knn"}, {"limit": 8}, {"pooling": "mean"}, {"refit": False}]
)
def test_resume_runs_what_differs(run, photos, tmp_path, change):
    path = tmp_path / "results.jsonl"
    run(photos, results=path, C=1.0)
    options = {"C": 1.0, **change}
    if "probe" in change:
        options.pop("C")
    run(photos, results=path, resume=True, **options)
    assert len(results.read(path)) == 2


def test_an_unwritable_results_file_is_refused_before_anything_runs(run, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("visbench.sources.find", lambda *a, **k: pytest.fail("went on"))
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--results"):
        run(photos, results=tmp_path / "file" / "results.jsonl")


def test_every_setting_that_changes_a_number_is_in_the_keys(run, photos):
    def key(**options):
        return run_key(run(photos, **options).record)

    assert key(probe="knn", k=5) != key(probe="knn", k=5, temperature=1.0)
    assert key(probe="knn", k=(3, 5)) != key(probe="knn", k=(3, 5), temperature=1.0)
    assert key() != key(probe_settings={"max_steps": 900})


def test_one_setting_written_in_two_ways_has_one_key(run, photos):
    def key(**options):
        return run_key(run(photos, **options).record)

    assert key(C=[1, 10]) == key(C=[10.0, 1.0, 1.0])
    assert key(probe="knn", k=(3, 5)) == key(probe="knn", k=[5, 3])
    assert key(lr=1, epochs=2) == key(lr=1.0, epochs=2.0)
    assert key(C=1.0) == key(l2=1 / 36)
