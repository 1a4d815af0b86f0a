"""Training: a planted target is found, in one pass for all settings, whatever chunks and memory do."""

import jax
import numpy as np
import pytest

from extract.spec import Identity, digest_json
from extract.store import Store
from probes.dense import Hparams, Program
from probes.heads import make_head
from probes.maps.segmentation import Segmentation
from visbench.dense import judging, scoring, streams, training
from visbench.dense.kinds import KINDS
from visbench.dense.streams import Stream
from visbench.dense.training import Run

N, GRID, DIMS, CLASSES, SIZE = 48, 4, 8, 4, 16
TASK = Segmentation(CLASSES)
ROWS = np.arange(32)
HELD = np.arange(32, N)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def planted(store):
    """A stream whose features tell each cell's class, noisily; `permuted` gives each image another's map."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 256, (N, 16), dtype=np.uint8)
    cells = rng.choice(CLASSES, (N, GRID, GRID), p=(0.4, 0.3, 0.2, 0.1)).astype(np.uint8)
    features = (
        rng.standard_normal((CLASSES, DIMS))[cells] * 3 + rng.standard_normal((N, GRID, GRID, DIMS)) / 2
    )
    maps = np.repeat(np.repeat(cells, SIZE // GRID, 1), SIZE // GRID, 2)
    maps[:, 0] = 255
    digests = []
    for name, array in (("features", features.astype(np.float16)), ("maps", maps)):
        which = Identity(digest_json(name), {"name": name})
        digests.append(which.digest)
        with store.writer(which, array.shape[1:], array.dtype) as writer:
            writer.add(ids, array)

    def make(*, held=True, permuted=False):
        order = np.random.default_rng(1).permutation(N) if permuted else np.arange(N)
        return Stream(
            [store.view(digests[0], ids)], [], store.view(digests[1], ids[order]), KINDS["labels"], held=held
        )

    return make


def run_of(rates=(0.05,), *, head="linear", stride=1, **options):
    values = np.array(rates, np.float32)
    program = Program(make_head(head, channels=CLASSES), TASK, stride, head == "linear")
    return Run(program, (0,), Hparams(values, np.full_like(values, 1e-4)), **options)


def fitted(stream, *runs, epochs=10, batch=5, seed=0):
    training.train(stream, runs, ROWS, epochs=epochs, batch=batch, seed=seed)
    return runs


def mious(stream, run):
    return [scoring.values(TASK, tally)["miou"] for tally in training.evaluate(stream, [run], HELD)[0]]


def leaves(run):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(run.params)]


@pytest.mark.parametrize("stride", [1, 2])
def test_a_planted_target_is_recovered(planted, stride):
    stream = planted()
    (run,) = fitted(stream, run_of(stride=stride))
    assert mious(stream, run)[0] > 0.6
    ceiling = judging.InFrame(TASK).tally(stream, judging.of_targets(TASK, (GRID, GRID)))
    assert mious(stream, run)[0] <= scoring.values(TASK, ceiling)["miou"] + 0.05
    assert run.loss[0] < 0.5


def test_permuted_targets_fall_to_the_baseline(planted):
    stream = planted(permuted=True)
    (run,) = fitted(stream, run_of((0.01,)), epochs=4)
    guesses = scoring.baselines(TASK, stream, ROWS)
    says = judging.of_guess(guesses["constant"])
    constant = scoring.values(TASK, judging.InFrame(TASK).tally(stream, says))["miou"]
    assert mious(stream, run)[0] < constant + 0.1


def test_settings_of_one_pass_are_those_of_runs_alone(planted):
    stream = planted()
    (both,) = fitted(stream, run_of((0.05, 0.001)))
    for place, rate in enumerate((0.05, 0.001)):
        (alone,) = fitted(stream, run_of((rate,)))
        for stacked, single in zip(leaves(both), leaves(alone), strict=True):
            np.testing.assert_allclose(stacked[place], single[0], rtol=2e-3, atol=2e-4)
    assert mious(stream, both)[0] > mious(stream, both)[1]


def test_programs_share_the_reading_of_every_batch(planted):
    stream = planted(held=False)
    linear, block = (
        run_of((0.05, 0.01), standardize=False),
        run_of((0.01,), head="conv_block", standardize=False),
    )
    fitted(stream, linear, block, epochs=2)
    assert stream.reads == 2 * len(ROWS)
    (alone,) = fitted(planted(), run_of((0.05, 0.01), standardize=False), epochs=2)
    for together, single in zip(leaves(linear), leaves(alone), strict=True):
        np.testing.assert_array_equal(together, single)


def test_chunks_and_memory_change_nothing(planted, monkeypatch):
    (whole,) = fitted(planted(), run_of(), epochs=2)
    monkeypatch.setattr(streams, "CHUNK_BYTES", 1)
    (cut,) = fitted(planted(held=False), run_of(), epochs=2)
    for ours, theirs in zip(leaves(whole), leaves(cut), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(whole.loss, cut.loss, rtol=1e-5)


def test_standardising_frees_the_fit_of_the_unit_of_features(planted, store):
    stream = planted()
    (run,) = fitted(stream, run_of())
    features = stream.views[0].read(ROWS).astype(np.float64)
    flat = features.reshape(-1, DIMS)
    np.testing.assert_allclose(run.scaling[0].mean, flat.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run.scaling[0].scale, flat.std(0), rtol=1e-4)


def test_a_channel_that_is_constant_becomes_zeros():
    moments = training._Moments()
    moments.add(np.full((2, 2, 2, 3), 1000.1, np.float32))
    moments.add(np.full((1, 2, 2, 3), 1000.1, np.float32))
    scaling = moments.scaling()
    np.testing.assert_array_equal(scaling.scale, 1)
    np.testing.assert_allclose(scaling.mean, 1000.1, rtol=1e-6)


def test_the_rate_rises_then_falls_to_nothing():
    from probes.dense import schedule

    shares = np.array([float(schedule(step, 10, 100)) for step in range(100)])
    np.testing.assert_allclose(shares[:15], np.arange(15) / 15, rtol=1e-6)
    assert (np.diff(shares[15:]) < 0).all()
    assert shares[15] == pytest.approx(1)
    assert shares[-1] < 1e-3
