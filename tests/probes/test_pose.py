from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from probes import pose
from probes.descent import epoch_order
from probes.errors import InputError
from probes.metrics.pose import canonical, errors, mean_pose, value

N, D, P, EPOCHS, BATCH = 40, 6, 70, 3, 32  # two whole batches and one of 6
fit = partial(pose.fit, epochs=EPOCHS, batch_size=BATCH)


def draw(seed=0, images=N, dims=D, pairs=P):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(images, dims)).astype(np.float32)
    members = rng.integers(0, images, (pairs, 2)).astype(np.int32)
    target = canonical(rng.normal(size=(pairs, 7))).astype(np.float32)
    return features, members, target


class Twin(torch.nn.Module):
    """The same in PyTorch, with weights of ours."""

    def __init__(self, params):
        super().__init__()
        widths = (len(params["norm"]["scale"]), *pose.WIDTHS, 7)
        self.norm = torch.nn.LayerNorm(widths[0])
        self.layers = torch.nn.ModuleList(torch.nn.Linear(*each) for each in pairwise(widths))
        for layer, ours in zip(self.layers, params["layers"], strict=True):
            layer.weight.data = torch.from_numpy(np.array(ours["weight"]).T.copy())
            layer.bias.data = torch.from_numpy(np.array(ours["bias"]))

    def forward(self, pairs):
        values = self.norm(pairs)
        for layer in self.layers[:-1]:
            values = layer(values).relu()
        values = self.layers[-1](values)
        return torch.cat([torch.nn.functional.normalize(values[:, :4]), values[:, 4:]], 1)


def test_its_twin_in_torch_has_the_same_output_and_gradient():
    features, members, target = draw()
    params = pose.init(jax.random.key(0), D)
    pairs = features[members].reshape(P, -1)
    twin = Twin(params)
    said = twin(torch.from_numpy(pairs))
    np.testing.assert_allclose(pose.output(params, jnp.asarray(pairs)), said.detach(), atol=1e-5)
    torch.nn.functional.mse_loss(said, torch.from_numpy(target)).backward()
    ours = jax.grad(pose.loss)(params, jnp.asarray(pairs), jnp.asarray(target), jnp.ones(P, bool))
    for layer, found in zip(twin.layers, ours["layers"], strict=True):
        np.testing.assert_allclose(found["weight"], layer.weight.grad.T, atol=1e-6)
        np.testing.assert_allclose(found["bias"], layer.bias.grad, atol=1e-6)
    np.testing.assert_allclose(ours["norm"]["scale"], twin.norm.weight.grad, atol=1e-6)
    np.testing.assert_allclose(ours["norm"]["bias"], twin.norm.bias.grad, atol=1e-6)


def test_it_is_trained_as_torch_would():
    features, members, target = draw()
    key = jax.random.key(3)
    start, order = jax.random.split(key)
    twin = Twin(pose.init(start, D))
    optimiser = torch.optim.AdamW(twin.parameters(), lr=1e-3, weight_decay=1e-1)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=EPOCHS * -(-P // BATCH))
    for epoch in range(EPOCHS):
        places, losses = np.asarray(epoch_order(order, epoch, jnp.ones(P, bool))), []
        for first in range(0, P, BATCH):
            rows = places[first : first + BATCH]
            optimiser.zero_grad()
            said = twin(torch.from_numpy(features[members[rows]].reshape(len(rows), -1)))
            loss = torch.nn.functional.mse_loss(said, torch.from_numpy(target[rows]))
            loss.backward()
            optimiser.step()
            fall.step()
            losses.append(float(loss.detach()) * len(rows))
    found = fit(features, members, target, pose.Hparams(1e-3, 1e-1), key=key)
    for layer, ours in zip(twin.layers, found.params["layers"], strict=True):
        np.testing.assert_allclose(ours["weight"], layer.weight.detach().T, atol=1e-4)
    np.testing.assert_allclose(found.train_loss, sum(losses) / P, rtol=1e-4)


def test_a_sweep_is_its_settings_one_by_one_and_is_compiled_once():
    features, members, target = draw()
    key, grid = jax.random.key(0), pose.Hparams(np.array([1e-3, 1e-2, 1e-4]), np.array([0.0, 1e-2, 1e-4]))
    found = pose.path(features, members, target, grid, key=key, epochs=EPOCHS, batch_size=BATCH)
    once = pose._advance._cache_size()
    others = pose.Hparams(np.array([2e-3, 2e-2, 2e-4]), 0.0)
    pose.path(features[:-1], members[:-2] % (N - 1), target[:-2], others, key=key, epochs=5, batch_size=BATCH)
    assert pose._advance._cache_size() == once
    mapped = jax.vmap(partial(fit, key=key), in_axes=(None, None, None, 0))(features, members, target, grid)
    for number in range(3):
        one = fit(features, members, target, pose.Hparams(*(float(leaf[number]) for leaf in grid)), key=key)
        for each in (found, mapped):
            own = jax.tree.map(lambda leaf, number=number: leaf[number], each)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4), own, one)


def test_masked_pairs_do_not_exist():
    features, members, target = draw()
    key, mask = jax.random.key(0), np.arange(P) < 50
    changed = np.where(mask[:, None], target, 9).astype(np.float32)
    masked = fit(features, members, changed, key=key, mask=mask)
    without = fit(features, members[:50], target[:50], key=key)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), masked, without)


def test_features_that_hold_the_pose_are_read_and_noise_is_not():
    rng = np.random.default_rng(0)
    images, pairs = 300, 4000
    angles = rng.uniform(0, 1.6, images)
    place = rng.normal(size=(images, 1))
    members = rng.integers(0, images, (pairs, 2)).astype(np.int32)
    members = members[members[:, 0] != members[:, 1]]
    turn = (angles[members[:, 1]] - angles[members[:, 0]]) / 2
    zero = np.zeros_like(turn)
    shift = (place[members[:, 1]] - place[members[:, 0]])[:, 0]
    target = canonical(np.stack([np.cos(turn), np.sin(turn), zero, zero, shift, zero, zero], axis=1))
    telling = np.concatenate([np.stack([np.cos(angles), np.sin(angles)], 1), place, np.ones((images, 1))], 1)
    learns = (members < 200).all(axis=1)
    scored = (members >= 200).all(axis=1)
    floor = errors(np.tile(mean_pose(target[learns]), (scored.sum(), 1)), target[scored])
    found = []
    for features in (telling, rng.normal(size=(images, 4))):
        trained = pose.fit(
            features.astype(np.float32),
            members,
            target.astype(np.float32),
            key=jax.random.key(0),
            mask=learns,
            epochs=20,
        )
        said = np.asarray(pose.predict(trained, features.astype(np.float32), members[scored]), np.float64)
        found.append(errors(said, target[scored]))
    good, bad = (value(**each) for each in found)
    least = value(**floor)
    assert good["rotation_error_deg"] < 0.3 * least["rotation_error_deg"]
    assert good["translation_error_m"] < 0.3 * least["translation_error_m"]
    assert bad["rotation_error_deg"] > 0.9 * least["rotation_error_deg"]


def test_predictions_are_poses_and_know_nothing_of_other_pairs():
    features, members, target = draw()
    trained = fit(features.astype(np.float16), members, target, key=jax.random.key(0))
    said = np.asarray(pose.predict(trained, features, members))
    np.testing.assert_allclose(np.linalg.norm(said[:, :4], axis=1), 1, atol=1e-5)
    assert (said[:, 0] >= 0).all()
    np.testing.assert_allclose(pose.predict(trained, features, members[5:6]), said[5:6], atol=1e-6)


def test_a_training_that_diverges_says_so():
    features, members, target = draw()
    found = pose.path(
        features,
        members,
        target,
        pose.Hparams(np.array([1e-3, 1e30]), 0.0),
        key=jax.random.key(0),
        epochs=2,
        batch_size=BATCH,
    )
    assert np.isfinite(found.train_loss[0])
    assert not np.isfinite(found.train_loss[1])


def test_progress_is_told_to_the_end():
    features, members, target = draw()
    told = []
    pose.path(
        features,
        members,
        target,
        pose.Hparams(np.full(17, 1e-3), 0.0),
        key=jax.random.key(0),
        epochs=2,
        progress=told.append,
    )
    assert told == sorted(told)
    assert told[-1] == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"members": np.array([[0, N]] * P)}, f"0 to {N}"),
        ({"members": np.zeros((P, 3), int)}, r"shape \(70, 3\)"),
        ({"target": np.ones((P - 1, 7))}, "70 and 69"),
        ({"features": np.full((N, D), np.nan)}, "not finite"),
        ({"epochs": 0}, "epochs is 0"),
        ({"hparams": pose.Hparams(-1.0, 0.0)}, "learning_rate is"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(change, said):
    features, members, target = draw()
    given = {"features": features, "members": members, "target": target, "hparams": pose.Hparams()}
    with pytest.raises(InputError, match=said):
        pose.path(**{**given, **change}, key=jax.random.key(0))
