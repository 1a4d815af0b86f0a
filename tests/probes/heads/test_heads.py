"""What holds for every head."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probes.errors import InputError
from probes.heads import HEADS, make_head
from probes.heads.layers import groups
from probes.heads.linear import Linear

GRID, DIMS, ROWS = (3, 2), 8, 3
NAMES = ("linear", "conv_block", "fpn", "dpt with CLS")  # dpt without it is in test_twins
EVERY = pytest.mark.parametrize("name", NAMES)


def maps_of(shapes, rows=ROWS, dtype=jnp.float32):
    rng = np.random.default_rng(5)
    return tuple(jnp.asarray(rng.standard_normal((rows, *shape)), dtype) for shape in shapes)


def inputs(head, layers, dtype=jnp.float32):
    cls = maps_of([(DIMS,)] * layers, dtype=dtype) if getattr(head, "readout", False) else None
    return maps_of([(*GRID, DIMS)] * layers, dtype=dtype), cls


def built(name, channels=3, layers=2, **settings):
    if name == "dpt with CLS":
        name, settings["readout"] = "dpt", True
    layers = 1 if HEADS[name].layers[1] == 1 else layers
    if "hidden_dim" in HEADS[name].settings:
        settings.setdefault("hidden_dim", 8)
    return make_head(name, channels=channels, layers=layers, **settings), layers


def params_of(head, *given, sets=()):
    """Random params; `sets` is the shape in front of each."""
    rng = np.random.default_rng(1)
    shapes = jax.eval_shape(head.init, jax.random.key(0), *given)["params"]
    return jax.tree.map(
        lambda leaf: jnp.asarray(0.3 * rng.standard_normal((*sets, *leaf.shape)), jnp.float32), shapes
    )


def draw(head, params, *given):
    return jax.jit(head.apply)({"params": params}, *given)


@EVERY
def test_settings_side_by_side_are_settings_one_by_one(name):
    head, layers = built(name, layers=3)
    given = inputs(head, layers)
    start = params_of(head, *given, sets=(3,))

    def loss(params):
        return (head.apply({"params": params}, *given) ** 2).mean()

    both = jax.jit(jax.vmap(jax.value_and_grad(loss)))(start)
    one = jax.jit(partial(jax.lax.map, jax.value_and_grad(loss)))(start)
    for leaf, expected in zip(jax.tree.leaves(both), jax.tree.leaves(one), strict=True):
        np.testing.assert_allclose(leaf, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@EVERY
def test_the_map_of_an_image_does_not_depend_on_its_company(name):
    head, layers = built(name)
    given = inputs(head, layers)
    params = params_of(head, *given)
    whole = draw(head, params, *given)
    close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5 * np.abs(whole).max())
    other = jax.tree.map(lambda leaf: leaf.at[1:].set(100.0), given)
    close(draw(head, params, *other)[0], whole[0])
    alone = jax.tree.map(lambda leaf: leaf[1:2], given)
    close(draw(head, params, *alone)[0], whole[1])


@pytest.mark.parametrize(
    ("name", "start"),
    [(name, "small") for name in NAMES]
    + [(name, start) for name in ("linear", "conv_block") for start in ("lecun", "torch")],
)
def test_every_param_learns_from_the_first_step_on(name, start):
    head, layers = built(name, layers=3, start=start)
    given = inputs(head, layers)
    wanted = jnp.asarray(np.random.default_rng(0).standard_normal((ROWS, 1, 1, 3)), jnp.float32)

    @jax.jit
    def slope(key):
        params = head.init(key, *given)["params"]
        return jax.grad(lambda p: ((head.apply({"params": p}, *given) - wanted) ** 2).mean())(params)

    leaves = jax.tree_util.tree_flatten_with_path(slope(jax.random.key(0)))[0]
    assert not [path for path, leaf in leaves if not np.abs(leaf).any()]


@EVERY
def test_stored_halves_are_raised_first(name):
    head, layers = built(name)
    halves = inputs(head, layers, jnp.float16)
    shapes = jax.eval_shape(head.init, jax.random.key(0), *halves)
    assert {leaf.dtype for leaf in jax.tree.leaves(shapes)} == {jnp.dtype("float32")}
    params = {"params": params_of(head, *halves)}
    raised = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), halves)
    found, expected = jax.jit(lambda *both: [head.apply(params, *given) for given in both])(halves, raised)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(found).max())


@EVERY
def test_a_configuration_is_traced_once(name):
    traced = []

    @partial(jax.jit, static_argnames="head")
    def forward(head, params, *given):
        traced.append(head)
        return head.apply({"params": params}, *given)

    head, layers = built(name)
    given = inputs(head, layers)
    params = params_of(head, *given)
    for _ in range(3):
        again, _ = built(name)
        assert again == head
        assert hash(again) == hash(head)
        forward.trace(again, params, *given)
    assert len(traced) == 1
    other, _ = built(name, channels=4)
    assert other != head
    forward.trace(other, params_of(other, *given), *given)
    assert len(traced) == 2


STAGES = ((8, 10, 4), (4, 5, 6), (2, 3, 9))


@pytest.mark.parametrize(("name", "size"), [("fpn", (8, 10)), ("dpt", (16, 20))])
def test_stages_of_a_cnn_may_come_in_any_order(name, size):
    maps = maps_of(STAGES)
    head = make_head(name, channels=2, layers=3, hidden_dim=8)
    params = params_of(head, maps)
    found = draw(head, params, maps)
    assert found.shape == (ROWS, *size, 2)
    turned = {
        key if key[-1] not in "012" else f"{key[:-1]}{2 - int(key[-1])}": leaf for key, leaf in params.items()
    }
    again = draw(head, turned, maps[::-1])
    np.testing.assert_allclose(again, found, rtol=1e-5, atol=1e-5 * np.abs(found).max())


@pytest.mark.parametrize(("layers", "size"), [(2, (6, 4)), (3, (12, 8)), (4, (24, 16))])
def test_dpt_ends_at_twice_its_largest_level(layers, size):
    head = make_head("dpt", channels=1, layers=layers, hidden_dim=4)
    maps = maps_of([(*GRID, DIMS)] * layers)
    found, _ = jax.eval_shape(head.init_with_output, jax.random.key(0), maps)
    assert found.shape == (ROWS, *size, 1)


@EVERY
def test_one_cell_is_enough(name):
    head, layers = built(name)
    given = maps_of([(1, 1, 4)] * layers), maps_of([(4,)] * layers) if "CLS" in name else None
    assert np.isfinite(draw(head, params_of(head, *given), *given)).all()


def count(name, layers, dims, hidden, **settings):
    head = make_head(name, channels=5, layers=layers, hidden_dim=hidden, **settings)
    maps = tuple(jnp.zeros((1, 4, 4, dims)) for _ in range(layers))
    cls = tuple(jnp.zeros((1, dims)) for _ in range(layers)) if settings.get("readout") else None
    shapes = jax.eval_shape(head.init, jax.random.key(0), maps, cls)
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def test_heads_have_the_params_one_counts_by_hand():
    d, k, c = 12, 16, 5
    out = k * c + c
    assert count("linear", 1, d, None) == d * c + c
    assert count("conv_block", 1, d, k) == 9 * d * k + 9 * k * k + 4 * k + out
    assert count("fpn", 3, d, k) == 3 * (d * k + k + 9 * k * k + 2 * k) + out
    conv = 9 * k * k + k
    reassembled = 4 * (d * k + k + 9 * k * k) + (16 * k * k + k) + (4 * k * k + k) + conv
    fused = 4 * (2 * conv + k * k + k) + 3 * 2 * conv
    drawn = 9 * k * k // 2 + k // 2 + k // 2 * c + c
    assert count("dpt", 4, d, k) == reassembled + fused + drawn
    assert count("dpt", 4, d, k, readout=True) == reassembled + fused + drawn + 4 * (2 * d * d + d)


def test_groups_are_even_and_never_of_one_channel_where_that_can_be():
    assert [groups(n) for n in (256, 128, 64, 90, 24, 7, 1)] == [32, 16, 8, 10, 3, 1, 1]


@pytest.mark.parametrize(
    ("start", "spread", "bias"),
    [("zeros", 0, 0), ("small", 0.1, 0), ("lecun", 1, 0), ("torch", 3**-0.5, 3**-0.5)],
)
def test_starts_are_as_wide_as_they_say(start, spread, bias):
    d, c = 400, 300
    found = Linear(c, start).init(jax.random.key(2), (jnp.zeros((1, 2, 2, d)),))["params"]["out"]
    np.testing.assert_allclose(found["kernel"].std() * d**0.5, spread, rtol=0.02)
    np.testing.assert_allclose(found["bias"].std() * d**0.5, bias, rtol=0.1)


def test_zeros_keep_what_is_hidden_alive():
    head, layers = built("conv_block", start="zeros")
    params = jax.jit(head.init)(jax.random.key(0), *inputs(head, layers))["params"]
    assert not params["out"]["kernel"].any()
    assert params["conv_0"]["kernel"].any()


@pytest.mark.parametrize(
    ("name", "layers", "cls", "complaint"),
    [
        ("linear", 2, False, "reads one layer and got 2"),
        ("linear", 1, True, "reads no CLS tokens"),
        ("conv_block", 4, False, "reads one layer"),
        ("fpn", 4, True, "dpt with readout=True"),
        ("dpt", 1, False, "2 to 4 layers and got 1"),
        ("dpt", 4, True, "readout=True only"),
        ("dpt with CLS", 4, False, "needs the CLS token of every layer"),
    ],
)
def test_maps_that_a_head_cannot_read_are_refused(name, layers, cls, complaint):
    head, _ = built(name)
    tokens = maps_of([(DIMS,)] * layers) if cls else None
    with pytest.raises(InputError, match=complaint):
        jax.eval_shape(head.init, jax.random.key(0), maps_of([(*GRID, DIMS)] * layers), tokens)
