"""The classification probe on arrays: choice of settings, refit, scores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.preprocessing import StandardScaler

from visbench.api import get_probe
from visbench.classifier import ClassificationProbe
from visbench.errors import UsageError


def blobs(count=240, dims=12, classes=3, spread=2.0, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, count)
    centres = np.random.default_rng(99).normal(size=(classes, dims))
    return (centres[labels] + spread * rng.normal(size=(count, dims))).astype(np.float32), labels


def test_the_winner_is_refitted_as_scikit_learn_would():
    x, y = blobs()
    probe = ClassificationProbe(C=0.1).fit(x, y)
    scaler = StandardScaler().fit(x)
    reference = LogisticRegression(C=0.1, tol=1e-8, max_iter=5000).fit(scaler.transform(x), y)
    ours = probe.logits(x)
    theirs = reference.decision_function(scaler.transform(x))
    np.testing.assert_allclose(ours - ours.mean(1, keepdims=True), theirs, atol=2e-3)
    assert probe.hyperparameters == {"C": 0.1, "l2": pytest.approx(1 / (0.1 * len(x)))}


def test_metrics_equal_scikit_learn():
    x, y = blobs()
    test_x, test_y = blobs(seed=1)
    probe = ClassificationProbe().fit(x, y)
    metrics, said = probe.evaluate(test_x, test_y), probe.predict(test_x)
    assert metrics["top1"] == pytest.approx((said == test_y).mean())
    assert metrics["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(test_y, said))
    assert metrics["macro_f1"] == pytest.approx(f1_score(test_y, said, average="macro"))
    assert "top5" not in metrics  # of three classes it would always be 1


def test_labels_keep_their_own_values():
    x, y = blobs()
    names = np.array([0, 5, 9])[y]
    for probe in ("logistic", "linear", "ridge", "knn"):
        settings = {"epochs": 5} if probe == "linear" else {}
        fitted = ClassificationProbe(probe, **settings).fit(x, names)
        assert set(fitted.predict(x)) <= {0, 5, 9}
        assert len(fitted.classes_) == 3


@pytest.mark.parametrize("factor", [0.01, 1.0, 10.0, 100.0])
def test_the_default_probe_does_not_depend_on_the_unit_of_features(factor):
    x, y = blobs()
    test_x, test_y = blobs(seed=1)
    val_x, val_y = blobs(seed=2)  # what is drawn is drawn by content, and the unit belongs to the content
    unit = np.float32(factor)
    plain = ClassificationProbe().fit(x, y, val=(val_x, val_y))
    scaled = ClassificationProbe().fit(x * unit, y, val=(val_x * unit, val_y))
    assert scaled.evaluate(test_x * unit, test_y) == plain.evaluate(test_x, test_y)
    assert scaled.hyperparameters == plain.hyperparameters


def test_selection_uses_the_val_rows_and_never_the_scored_ones():
    x, y = blobs()
    val, test = blobs(seed=1), blobs(seed=2)
    probe = ClassificationProbe().fit(x, y, val=val)
    again = ClassificationProbe().fit(x, y, val=val)
    shuffled = np.random.default_rng(0).permutation(test[1])
    assert probe.hyperparameters == again.hyperparameters
    assert abs(again.evaluate(test[0], shuffled)["top1"] - 1 / 3) < 0.12
    assert probe.selection["val_size"] == len(val[1])
    assert len(probe.selection["scores"]) == 21


def test_statistics_come_from_the_fitted_rows():
    x, y = blobs()
    val = blobs(seed=1)
    probe = ClassificationProbe(refit=False).fit(x, y, val=(val[0] + 100, val[1]))
    np.testing.assert_allclose(probe.scaler.mean, x.mean(0), atol=1e-5)


def test_refit_changes_the_fit_and_the_penalty_a_sample():
    x, y = blobs()
    val = blobs(seed=1)
    with_val = ClassificationProbe(C=1.0).fit(x, y, val=val)
    without = ClassificationProbe(C=1.0, refit=False).fit(x, y, val=val)
    assert with_val.hyperparameters["l2"] == pytest.approx(1 / 480)
    assert without.hyperparameters["l2"] == pytest.approx(1 / 240)
    assert np.abs(with_val.logits(x) - without.logits(x)).max() > 1e-3


def test_a_tie_goes_to_the_middle():
    x = np.repeat(np.eye(2, dtype=np.float32) * 10, 20, axis=0) + np.arange(40)[:, None] * 1e-3
    probe = ClassificationProbe().fit(x, np.repeat([0, 1], 20))  # any C tells these apart
    assert set(probe.selection["scores"]) == {1.0}
    assert probe.hyperparameters["C"] == pytest.approx(0.1)  # of 1e-6 … 1e4


def test_a_best_setting_at_the_edge_is_said_and_widened():
    x, y = blobs(spread=1.0)
    grid = (1e-5, 1e-4, 1e-3)  # too strong a penalty, all three
    narrow = ClassificationProbe(C=grid).fit(x, y)
    wide = ClassificationProbe(C=grid, widen=True).fit(x, y)
    assert narrow.selection["edge"]
    assert narrow.hyperparameters["C"] == 1e-3
    assert wide.hyperparameters["C"] == pytest.approx(1e-1)
    assert not wide.selection["edge"]
    assert max(wide.selection["scores"]) > max(narrow.selection["scores"])


def test_choosing_loosely_chooses_the_same(monkeypatch):
    x, y = blobs(count=400, dims=60)
    val = blobs(count=400, dims=60, seed=1)
    loose = ClassificationProbe().fit(x, y, val=val)
    monkeypatch.setattr("visbench.solvers.CHOOSING", {"tol": 3e-6})
    strict = ClassificationProbe().fit(x, y, val=val)
    np.testing.assert_allclose(loose.selection["scores"], strict.selection["scores"], atol=0.01)
    assert loose.hyperparameters == strict.hyperparameters


def test_a_plateau_is_not_walked_along():
    x, y = blobs(spread=1.0)
    probe = ClassificationProbe(C=(1e-7, 1e-6, 1e-5), widen=True).fit(x, y)
    assert len(set(probe.selection["scores"])) == 1
    assert not probe.selection["edge"]


def test_knn_reports_every_k_and_refuses_too_many():
    x, y = blobs()
    probe = ClassificationProbe("knn").fit(x, y)
    metrics = probe.evaluate(*blobs(seed=1))
    assert metrics["top1"] == metrics[f"knn{probe.hyperparameters['k']}_top1"]
    assert {"knn5_top1", "knn20_top1"} <= set(metrics)
    with pytest.raises(ValueError, match="k is 500"):
        ClassificationProbe("knn", k=500).fit(x, y)


@pytest.mark.parametrize(
    ("probe", "settings", "words"),
    [
        ("logistic", {"epochs": 3}, "logistic has no setting epochs; it is a setting of linear"),
        ("logstic", {}, 'Did you mean "logistic"'),
        ("logistic", {"C": 0.0}, "C is 0.0"),
        ("knn", {"k": -1}, "k is -1"),
    ],
)
def test_wrong_settings_are_refused(probe, settings, words):
    with pytest.raises(UsageError, match=words):
        ClassificationProbe(probe, **settings)


def test_one_class_is_refused():
    with pytest.raises(UsageError, match="one class"):
        ClassificationProbe().fit(np.random.default_rng(0).normal(size=(9, 3)), np.zeros(9, int))


def test_a_label_that_was_never_trained_is_refused():
    x, y = blobs()
    probe = ClassificationProbe(C=1.0).fit(x, y)
    with pytest.raises(UsageError, match="does not occur in training"):
        probe.evaluate(x, y + 1)


def test_an_unfinished_solver_says_so():
    x, y = blobs()
    probe = ClassificationProbe(C=1e6, max_steps=3).fit(x, y)
    assert probe.convergence["converged"] is False
    assert probe.convergence["steps"] == 3
    assert probe.convergence["grad_norm"] > 0


@pytest.mark.parametrize(
    ("probe", "settings", "said"),
    [
        ("logistic", {"C": float("nan")}, "C is nan; it must be finite and greater than 0"),
        ("logistic", {"C": float("inf")}, "C is inf"),
        ("logistic", {"C": ()}, "C is empty"),
        ("logistic", {"C": 1.0, "l2": 1.0}, "C and l2 are one penalty in two units"),
        ("linear", {"learning_rate": float("nan")}, "learning_rate is nan"),
        ("linear", {"weight_decay": -1}, "weight_decay is -1; it must be finite and 0 or more"),
        ("knn", {"temperature": float("nan")}, "temperature is nan"),
    ],
)
def test_settings_of_no_meaning_are_refused(probe, settings, said):
    with pytest.raises(UsageError, match=said):
        ClassificationProbe(probe, **settings)


def test_a_value_given_twice_stands_in_the_grid_once():
    assert ClassificationProbe(C=(1.0, 1.0)).solver.grid().settings() == [{"C": 1.0}]


def test_a_fit_that_diverges_is_named():
    x, y = blobs(count=60)
    with pytest.raises(UsageError, match="the linear fit diverged with learning_rate 1e"):
        ClassificationProbe("linear", learning_rate=1e38, epochs=20).fit(x, y)


def test_widening_leaves_the_neighbours_alone():
    x, y = blobs()
    assert ClassificationProbe("knn", widen=True).fit(x, y).hyperparameters["k"] in (5, 20)


@pytest.mark.parametrize(
    ("probe", "settings", "words"),
    [
        ("knn", {"k": 2.5}, "whole number"),
        ("knn", {"k": "5"}, "must be a number"),
        ("linear", {"epochs": 1.5}, "whole number"),
        ("linear", {"epochs": [1, 2]}, "takes one number"),
        ("logistic", {"C": True}, "must be a number"),
    ],
)
def test_settings_that_are_no_such_number_are_refused(probe, settings, words):
    with pytest.raises(UsageError, match=words):
        ClassificationProbe(probe, **settings)


def test_an_infinite_temperature_counts_votes_alike():
    x, y = blobs()
    plain = ClassificationProbe("knn", k=7, temperature=None).fit(x, y)
    assert (
        ClassificationProbe("knn", k=7, temperature=np.inf).fit(x, y).hyperparameters == plain.hyperparameters
    )
    shares = plain.logits(x[:20])
    np.testing.assert_allclose(shares * 7, np.round(shares * 7), atol=1e-4)


def test_a_class_without_a_vote_is_not_among_the_first_five():
    x = 10 * np.eye(10, dtype=np.float32)[np.arange(40) % 10] + np.arange(40)[:, None] / 100
    y = np.arange(40) % 10
    probe = ClassificationProbe("knn", k=1).fit(x, y)
    assert probe.evaluate(x, y)["top5"] == 1
    assert probe.evaluate(x, (y + 1) % 10)["top5"] == 0  # one neighbour names one class, and that is another


def test_arrays_that_do_not_fit_are_refused():
    x, y = blobs()
    probe = ClassificationProbe(C=1.0)
    with pytest.raises(UsageError, match="not fitted"):
        probe.predict(x)
    probe.fit(x, y)
    broken = x.copy()
    broken[3, 0] = np.nan
    for call, words in (
        (lambda: probe.predict(broken), "not finite in row 3"),
        (lambda: probe.predict(x[:, :5]), "5 dims; the probe was fitted on 12"),
        (lambda: probe.evaluate(x, y[:9]), "240 and 9 rows"),
        (lambda: probe.evaluate(x, y + 1), "label 3 does not occur in training"),
        (lambda: probe.fit(x, y, val=(broken, y)), "val features"),
        (lambda: probe.fit(x, y, val=(x, y[:9])), "240 and 9 rows"),
        (lambda: probe.fit(x, y, val=(x[:, :5], y)), "12 and 5 dims"),
        (lambda: probe.fit(x, np.eye(3)[y]), "one class a row"),
        (lambda: probe.fit(x, y + 0.5), "fractions"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_a_probe_on_its_own_follows_the_options_of_a_run():
    assert get_probe("classification", "linear", seed=3).solver.seed == 3
    classic = get_probe("classification", protocol="visbench")
    assert (classic.name, classic.solver.standardize, classic.refit) == ("linear", False, False)
    assert get_probe("retrieval", protocol="visbench").rule == "classic"
    with pytest.raises(UsageError, match="no dtype"):
        get_probe("classification", dtype="float32")
    with pytest.raises(UsageError, match="retrieval has no setting k"):
        get_probe("retrieval", k=3)
