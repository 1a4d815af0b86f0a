"""Sweeps through Python: axes, honest choice, seeds, few shots, controls, what is kept and taken up again."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import visbench
from extract.errors import InputError
from visbench import advice, results
from visbench.classifier import ClassificationProbe
from visbench.errors import UsageError
from visbench.grid import Grid
from visbench.journal import journal_path
from visbench.options import make_options
from visbench.record import board_key, run_key
from visbench.searching import Arm, Found, Table
from visbench.sweeping import Sweep


@pytest.fixture
def sweep(tiny_backbone):
    backbone = tiny_backbone()

    def call(data, task="classification", **options):
        return visbench.sweep(backbone, task, data, **options)

    return call


def test_a_sweep_over_layers_taps_and_settings_scores_the_best_alone(sweep, photos):
    grid = {"tap": ["cls", "mean"], "layer": [0, 1], "standardize": [True, False], "C": np.logspace(-4, 2, 5)}
    swept = sweep(photos, grid=grid)
    (result,) = swept.results
    assert len(swept.trials) == 2 * 2 * 2 * 5
    (chosen,) = [row for row in swept.trials if row["chosen"]]
    assert chosen["score"] == max(row["score"] for row in swept.trials)
    record = result.record
    assert record.taps == ["cls@0", "cls@1", "mean@0", "mean@1"]
    assert record.taps_resolved == [f"{chosen['tap']}@{chosen['layer']}"]
    assert record.layer == chosen["layer"]
    assert record.hyperparameters["C"] == chosen["C"]
    assert record.hyperparameters["standardize"] is chosen["standardize"]
    assert record.selection["grid"]["tap"] == ["cls", "mean"]
    assert record.selection["outcome"]["trials"] == 40
    assert swept.axes["layer"] == [0, 1]
    assert swept.to_pandas().shape == (40, 9)
    assert "chosen on held-out training data" in swept.board()


def test_the_winner_is_what_a_run_of_it_gives(sweep, run, photos):
    (swept,) = sweep(photos, grid={"layer": [0, 1], "C": [0.01, 1.0]}).results
    record = swept.record
    plain = run(photos, layer=record.layer, C=record.hyperparameters["C"])
    assert plain.metrics == swept.metrics
    assert plain.intervals == swept.intervals


def test_a_sweep_agrees_with_a_plain_loop_over_its_settings(sweep, run, photos):
    rates = [1e-3, 1e-2, 1e-1]
    swept = sweep(photos, probe="linear", grid={"lr": rates, "weight_decay": [0.0]}, epochs=20)
    best = swept.results[0].record.hyperparameters["learning_rate"]
    one = run(photos, probe="linear", lr=best, weight_decay=0.0, epochs=20)
    assert one.metrics == pytest.approx(swept.results[0].metrics)
    assert [row["learning_rate"] for row in swept.trials] == rates


def test_permuted_test_labels_change_no_choice(sweep, photos):
    grid = {"layer": [0, 1], "C": [0.01, 1.0, 100.0]}
    fair = sweep(photos, grid=grid).trials
    files = sorted((photos / "test" / "cat").iterdir()) + sorted((photos / "test" / "owl").iterdir())
    for index, file in enumerate(files):
        file.rename(photos / "test" / ("owl" if index % 2 else "cat") / f"moved{index}.png")
    assert sweep(photos, grid=grid).trials == fair


def test_the_usual_grid_of_a_trained_probe_is_tried_where_none_is_given(sweep, photos):
    swept = sweep(photos, probe="linear", epochs=2)
    assert set(swept.axes) == {"learning_rate", "weight_decay"}
    assert len(swept.trials) == 32


@pytest.mark.parametrize("select", ["holdout", "cv3"])
def test_settings_are_chosen_as_asked(sweep, photos, select):
    swept = sweep(photos, grid={"C": [1e-6, 1.0]}, select=select)
    record = swept.results[0].record
    folds = 3 if select == "cv3" else 1
    assert record.selection["how"].endswith(
        "3 folds of the training data" if folds == 3 else "held-out training data"
    )
    assert record.selection["outcome"]["val_size"] == (36 if folds == 3 else 6)
    assert (swept.trials[0]["std"] is None) == (folds == 1)
    assert record.hyperparameters["C"] == record.selection["outcome"]["chosen"]["C"]


def test_seeds_are_averaged_and_their_spread_is_told(sweep, photos):
    swept = sweep(
        photos, probe="linear", grid={"lr": [1e-3, 1e-2]}, epochs=3, train_batch_size=8, seeds=3, seed=5
    )
    record = swept.results[0].record
    assert record.seeds == [5, 6, 7]
    assert record.context["top1_std"] >= 0
    low, high = record.intervals["top1"]
    assert low <= record.metrics["top1"] <= high
    assert swept.trials[0]["std"] is not None
    each = [
        visbench_linear(sweep, photos, record.hyperparameters["learning_rate"], seed) for seed in record.seeds
    ]
    assert record.metrics["top1"] == pytest.approx(np.mean(each))


def visbench_linear(sweep, photos, rate, seed):
    grid = {"lr": [rate], "weight_decay": [1e-4]}
    found = sweep(photos, probe="linear", grid=grid, epochs=3, train_batch_size=8, seed=seed)
    return found.results[0].metrics["top1"]


def test_a_fit_that_is_not_random_takes_one_seed(sweep, photos):
    record = sweep(photos, grid={"C": [0.1, 1.0]}, seeds=3).results[0].record
    assert record.seeds is None


def test_few_shots_give_a_record_each_from_draws_of_the_same_images(sweep, photos):
    swept = sweep(photos, grid={"C": [0.01, 1.0]}, shots=[1, 4], draws=3)
    one, four = (result.record for result in swept.results)
    assert (one.task_params["shots"], four.task_params["shots"], one.task_params["draws"]) == (1, 4, 3)
    assert one.task_params["refit"] is False
    assert board_key(one) != board_key(four)
    assert four.metrics["top1"] >= one.metrics["top1"] - 0.1
    assert {row["shots"] for row in swept.trials} == {1, 4}
    again = sweep(photos, grid={"C": [0.01, 1.0]}, shots=1, draws=3).results[0]
    assert again.metrics == swept.results[0].metrics
    with pytest.raises(UsageError, match="few shots"):
        sweep(photos, grid={"C": [0.01, 1.0]}, shots=1, select="cv3")
    with pytest.raises(UsageError, match="shots is 0"):
        sweep(photos, shots=[0])


def test_controls_stand_beside_the_scores(photos, tiny):
    swept = visbench.sweep(
        tiny, "classification", photos, grid={"layer": [0, 1]}, controls=["shuffle", "pixels"]
    )
    controls = [result.record.control for result in swept.results]
    assert controls == [None, "shuffled labels", "pixels"]
    real, shuffled, pixels = (result.metrics["top1"] for result in swept.results)
    assert real >= 0.8
    assert pixels >= 0.8  # a colour is what pixels tell
    assert shuffled < 0.7
    assert swept.best.record.control is None
    assert "(shuffled labels)" in swept.board()


def test_layers_and_taps_that_a_backbone_lacks_are_left_out(photos, tiny, capsys):
    swept = visbench.sweep(
        [tiny, "pixels"], "classification", photos, grid={"layer": [0, 1], "tap": ["cls", "mean"]}
    )
    layers = [
        {(row["layer"], row["tap"]) for row in swept.trials if row["backbone"] == name}
        for name in ("tiny", "pixels")
    ]
    assert layers == [{(0, "cls"), (0, "mean"), (1, "cls"), (1, "mean")}, {(0, "mean")}]
    assert "pixels has no cls@0" in capsys.readouterr().err
    with pytest.raises(Exception, match="no layer 7"):
        visbench.sweep(tiny, "classification", photos, grid={"layer": [7, 8]})


def test_two_names_of_one_tap_are_tried_once(sweep, photos):
    swept = sweep(photos, grid={"layer": [1, -1], "C": [1.0]})
    assert len(swept.trials) == 0  # one setting is no choice
    swept = sweep(photos, grid={"layer": [1, -1], "C": [0.1, 1.0]})
    assert {row["layer"] for row in swept.trials} == {1}


def test_a_stopped_sweep_goes_on_and_says_where_its_scores_are(sweep, photos, tmp_path, monkeypatch):
    place, grid = tmp_path / "r" / "a.jsonl", {"layer": [0, 1], "C": np.logspace(-6, 4, 300)}
    whole = sweep(photos, grid=grid)
    from visbench import classifier

    real = classifier.HeldOut.__call__

    def stop_at_the_second_layer(self, arm, settings, replicate):
        if arm.place["layer"] == 1:
            raise KeyboardInterrupt
        return real(self, arm, settings, replicate)

    with monkeypatch.context() as patch:
        patch.setattr(classifier.HeldOut, "__call__", stop_at_the_second_layer)
        with pytest.raises(KeyboardInterrupt):
            sweep(photos, grid=grid, results=place)
    assert not place.exists()

    def only_the_second(self, arm, settings, replicate):
        assert arm.place["layer"] == 1
        return real(self, arm, settings, replicate)

    monkeypatch.setattr(classifier.HeldOut, "__call__", only_the_second)
    rest = sweep(photos, grid=grid, results=place)
    assert rest.trials == whole.trials
    (record,) = results.read(place)
    kept = place.parent / record.selection["outcome"]["scores_file"]
    assert kept == journal_path(place, record)
    assert kept != journal_path(place, replace(record, versions={"visbench": "0.0.1", "jax": "0.7"}))
    assert sum(len(json.loads(line)["scores"]) for line in kept.read_text().splitlines()) == 600


def test_an_edge_is_said_with_the_way_out(sweep, photos):
    (result,) = sweep(photos, grid={"C": [1e-5, 3e-4, 1e-2]}).results
    if result.record.selection["outcome"]["edge"]:
        assert any("--widen" in text for text in result.warnings)
    wide = sweep(photos, grid={"C": [1e-6, 1e-5]}, widen=True).results[0]
    assert wide.record.selection["outcome"]["trials"] >= 2


@pytest.mark.parametrize(
    ("widened", "way_out"), [(False, "--widen tries beyond"), (True, "give it a wider --grid")]
)
def test_an_edge_is_said_where_it_lies_with_what_is_left_to_do(widened, way_out):
    arm = Arm({"tap": "cls", "layer": 5}, Grid({"C": (0.1, 1.0)}))
    found = Found([Table(arm, np.array([[0.1], [0.2]]))], widened)
    assert advice.warnings([ClassificationProbe()], found) == [
        f"C 1 at tap cls, layer 5 is at the edge of its grid: {way_out}"
    ]


def test_axes_in_any_order_make_one_sweep(sweep, photos):
    grids = (
        {"learning_rate": rates, "weight_decay": [0, 1e-4]}
        for rates in ([0.01, 1e-4, 1e-3], [1e-4, 1e-3, 0.01])
    )
    first, second = (sweep(photos, probe="linear", grid=grid, epochs=2, widen=True) for grid in grids)
    assert first.trials == second.trials
    assert run_key(first.best.record) == run_key(second.best.record)


def test_the_axes_hold_what_widening_added(sweep, photos):
    (result,) = sweep(photos, grid={"C": [0.1, 1.0]}).results
    wider = replace(result, trials=[*result.trials, {"C": 10.0, "score": 0.5, "chosen": False}])
    assert Sweep((wider,)).axes == {"C": [0.1, 1.0, 10.0]}


@pytest.mark.parametrize("count", [1, 2])
def test_what_a_backbone_lacks_is_no_reason_to_compute_again(photos, tiny, tmp_path, count):
    asked = [tiny, "pixels"], "classification", photos  # pixels have one layer
    how = {"grid": {"layer": [0, 1], "C": [1.0, 10.0][:count]}, "results": tmp_path / "a.jsonl"}
    first, again = visbench.sweep(*asked, **how), visbench.sweep(*asked, **how, resume=True)
    assert [result.resumed for result in (*first.results, *again.results)] == [False] * 2 + [True] * 2


def test_a_layer_that_no_backbone_has_is_a_slip(photos, tiny):
    with pytest.raises(InputError, match="no layer 2; its 2 layers are 0 … 1"):
        visbench.sweep([tiny, "pixels"], "classification", photos, grid={"layer": [0, 1, 2]})


@pytest.mark.parametrize("count", [3, 300])
def test_a_resumed_sweep_still_has_its_trials(sweep, photos, tmp_path, count):
    grid = {"layer": [0, 1], "l2": np.logspace(-3, 3, count)}
    asked = {"probe": "ridge", "grid": grid, "select": "cv3", "results": tmp_path / "a.jsonl"}
    first, again = sweep(photos, **asked), sweep(photos, **asked, resume=True)
    assert again.results[0].resumed
    assert len(again.trials) == 2 * count
    for ours, theirs in zip(first.trials, again.trials, strict=True):
        assert theirs == pytest.approx(ours)
    assert again.axes == first.axes


def test_images_that_choose_are_counted_once_however_many_draws_fit(sweep, photos):
    records = [
        sweep(photos, shots=2, draws=draws, grid={"C": [0.1, 1.0]}).results[0].record for draws in (1, 4)
    ]
    assert len({record.selection["outcome"]["val_size"] for record in records}) == 1


def test_more_shots_than_a_class_has_are_said(sweep, photos):
    with pytest.raises(
        UsageError, match=r'class "cat" has 12 images that may train \(2 other classes too few too\), fewer'
    ):
        sweep(photos, shots=[2, 100], grid={"C": [1.0]})
    few, many = sweep(photos, shots=[2, 100], draws=2, grid={"C": [1.0]}, allow_fewer=True).results
    assert not few.warnings
    assert "fewer" not in few.record.task_params
    assert many.record.task_params["fewer"] == {"cat": 12, "dog": 12, "owl": 12}
    assert many.warnings == ("3 of 3 classes have fewer than 100 images that may train: all of theirs do",)


def test_each_probe_takes_the_axes_that_it_has(sweep, photos):
    asked = {"probe": ["logistic", "knn"], "grid": {"layer": [0, 1], "C": [0.1, 1.0], "k": [1, 3]}}
    grids = [result.record.selection["grid"] for result in sweep(photos, **asked).results]
    assert [list(grid) for grid in grids] == [["layer", "C"], ["layer", "k", "temperature"]]
    with pytest.raises(UsageError, match='"colour" is no axis of logistic'):
        sweep(photos, probe=["logistic", "knn"], grid={"k": [1], "colour": [1]})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"grid": {"colour": [1]}}, '"colour" is no axis of logistic'),
        ({"grid": {"k": [1, 3]}}, "no axis of logistic. It is one of knn"),
        ({"grid": {"C": [1.0]}, "C": 2.0}, "given twice"),
        ({"grid": {"lr": [1.0], "learning_rate": [1.0]}, "probe": "linear"}, "given twice"),
        ({"grid": {"tap": ["patches"]}}, "pooled probes read"),
        ({"grid": {"layer": [0.5]}}, "no layer"),
        ({"grid": {"C": [-1.0]}}, "greater than 0"),
        ({"grid": {"standardize": ["maybe"]}}, "standardize"),
        ({"grid": {"C": []}}, "empty"),
        ({"select": "val"}, "needs a val split"),
        ({"select": "cv1"}, "--select"),
        ({"controls": ["noise"]}, 'no control "noise"'),
        ({"controls": ["random-weights"]}, "loaded already"),
        ({"seeds": 0}, "seeds is 0"),
        ({"grid": {"C": None}}, "the axis C of the grid is None"),
        ({"grid": [("C", [1.0])]}, "grid is a list"),
        ({"shots": "1,2"}, "shots is '1,2'"),
    ],
)
def test_what_makes_no_sweep_is_refused(sweep, photos, options, words):
    with pytest.raises(UsageError, match=words):
        sweep(photos, **options)


def test_retrieval_has_nothing_to_choose_by(sweep, photos):
    with pytest.raises(UsageError, match="learns nothing"):
        sweep(photos, "retrieval", grid={"layer": [0, 1]})


def test_a_run_is_asked_for_one_backbone(run, photos):
    with pytest.raises(UsageError, match=r"visbench\.sweep"):
        run(photos, controls=("pixels",))
    assert make_options(seeds=2).seeds == 2


def test_neighbours_that_nobody_asked_for_shrink_to_those_there_are(sweep, run, photos, capsys):
    record = sweep(photos, probe="knn", shots=2, draws=2, grid={"layer": [0, 1]}).results[0].record
    assert record.selection["grid"]["k"] == [6, 5]
    assert "k is 6, 5" in capsys.readouterr().err
    assert run(photos, probe="knn", limit=3).record.selection["grid"]["k"] == [6, 5]
    with pytest.raises(UsageError, match="training images to vote with 2 shots"):
        sweep(photos, probe="knn", shots=2, grid={"k": [5, 7]})


def test_numbers_of_shots_may_be_an_array(sweep, photos):
    swept = sweep(photos, shots=np.array([1, 2]), draws=2, grid={"C": [1.0]})
    assert [result.record.task_params["shots"] for result in swept.results] == [1, 2]
    assert len(sweep(photos, shots=np.int64(1), draws=2, grid={"C": [1.0]}).results) == 1
