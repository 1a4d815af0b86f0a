import jax.numpy as jnp
import numpy as np

from probes import affine


def test_of_equal_logits_the_lower_class_comes_first():
    ranks = affine.rank(jnp.zeros((3, 7)), jnp.array([0, 4, 6]))
    assert ranks.tolist() == [0, 4, 6]


def test_scores_count_only_what_the_mask_lets_through():
    logits = np.eye(7, dtype=np.float32)[[0, 1, 2, 3]] * 9
    labels = np.array([0, 1, 6, 3])
    scores = affine.score(logits, labels, np.array([True, True, True, False]))
    assert set(scores) == {"top1", "top5", "loss"}
    assert np.isclose(scores["top1"], 2 / 3)
    assert np.isclose(scores["top5"], 2 / 3)  # of the equals behind class 2, class 6 is the last
    assert set(affine.score(logits[:, :5], labels % 5)) == {"top1", "loss"}


def test_a_sure_answer_has_no_loss_and_a_wrong_one_a_finite_one():
    losses = affine.cross_entropy(jnp.array([[1000.0, 0.0]] * 2), jnp.array([0, 1]))
    assert losses.tolist() == [0, 1000]


def test_a_fit_that_diverged_wins_no_sweep():
    labels = jnp.array([0, 1, 2, 0])
    assert affine.score(jnp.full((4, 3), jnp.nan), labels)["top1"] == 0
    assert affine.rank(jnp.array([[jnp.nan, 1.0, 2.0]]), labels[:1])[0] == 3
