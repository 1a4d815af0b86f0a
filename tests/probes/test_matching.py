import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates

from probes import matching
from probes.errors import InputError

seeds = st.integers(0, 2**32 - 1)


def draw(seed=0, p=3, n=20, m=24, d=12, noise=0.4, dtype=np.float16):
    """Source tokens, and target tokens of which most are source tokens seen again."""
    rng = np.random.default_rng(seed)
    source = rng.standard_normal((p, n, d))
    again = np.take_along_axis(source, rng.integers(0, n, (p, m))[..., None], axis=1)
    target = again + noise * rng.standard_normal((p, m, d))
    return (source * 30).astype(dtype), (target * rng.uniform(0.5, 2, (p, m, 1))).astype(dtype)


def literal(source, target, ratio=0.9, num_corr=1000, mutual=False, source_mask=None, target_mask=None):
    """Pair after pair and patch after patch, in 64 bit."""
    p, n, m = len(source), source.shape[1], target.shape[1]
    chosen, similar, ratios = np.zeros((p, n), int), np.zeros((p, n)), np.ones((p, n))
    kept = np.zeros((p, n), bool)
    here = np.ones((p, n), bool) if source_mask is None else source_mask
    there = np.ones((p, m), bool) if target_mask is None else target_mask
    for pair in range(p):
        a, b = source[pair].astype(np.float64), target[pair].astype(np.float64)
        a /= np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-300)
        b /= np.maximum(np.linalg.norm(b, axis=1, keepdims=True), 1e-300)
        cosine = a @ b.T
        distance = np.sqrt(np.maximum(2 - 2 * cosine, 0))
        for i in range(n):
            order = [j for j in np.argsort(distance[i], kind="stable") if there[pair, j]]
            if not order:
                continue
            first = order[0]
            chosen[pair, i], similar[pair, i] = first, cosine[i, first]
            ratios[pair, i] = distance[i, first] / distance[i, order[1]] if len(order) > 1 else 0
            passes = ratio in (None, 1.0) or ratios[pair, i] < ratio
            if mutual:
                back = [k for k in np.argsort(distance[:, first], kind="stable") if here[pair, k]]
                passes &= bool(back) and back[0] == i
            kept[pair, i] = passes and here[pair, i] and a[i].any() and b[first].any()
        good = [i for i in np.argsort(ratios[pair], kind="stable") if kept[pair, i]]
        kept[pair, good[num_corr:]] = False
    return chosen, similar, ratios, kept, here


def same(found, expected):
    """Equal but where a mask leaves a source patch out, whose match is of no account."""
    chosen, similar, ratios, kept, here = expected
    np.testing.assert_array_equal(found.kept, kept)
    np.testing.assert_array_equal(found.target[here], chosen[here])
    np.testing.assert_allclose(found.similarity[here], similar[here], atol=2e-6)
    np.testing.assert_allclose(found.ratio[here], ratios[here], atol=2e-5)


@settings(max_examples=20, deadline=None)
@given(
    seeds,
    st.sampled_from([None, 1.0, 0.9, 0.6]),
    st.sampled_from([3, 11, 1000]),
    st.booleans(),
    st.booleans(),
)
def test_it_is_what_a_literal_loop_finds(seed, ratio, num_corr, mutual, masked):
    source, target = draw(seed)
    asked = {"ratio": ratio, "num_corr": num_corr, "mutual": mutual}
    if masked:
        rng = np.random.default_rng(seed)
        asked |= {"source_mask": rng.random((3, 20)) < 0.7, "target_mask": rng.random((3, 24)) < 0.7}
    found = matching.match(source, target, **asked)
    same(found, literal(source, target, **asked))
    if ratio == 0.9 and num_corr > 20 and not mutual:
        assert 0 < found.kept.sum() < found.kept.size


@pytest.mark.parametrize("dtype", [np.float16, np.float32, jnp.bfloat16])
@pytest.mark.parametrize(("n", "m", "d"), [(5, 40, 8), (40, 5, 8), (7, 2, 3), (1, 3, 2)])
def test_grids_may_differ(n, m, d, dtype):
    source, target = draw(1, n=n, m=m, d=d, dtype=dtype)
    same(matching.match(source, target), literal(source, target))


def test_an_identity_pair_matches_itself():
    source, _ = draw(2, n=64, d=32)
    found = matching.match(source, source, mutual=True)
    assert (found.target == np.arange(64)).all()
    assert found.kept.all()
    assert (found.similarity == 1).all()
    assert (found.ratio == 0).all()


def test_scaling_tokens_changes_no_match():
    source, target = draw(3, d=48, dtype=np.float32)
    for factor in (1e-15, 3.0, 1e25):  # the squares of which no float32 holds
        found = matching.match(source * np.float32(factor), target)
        same(found, literal(source, target))
    scales = np.random.default_rng(0).uniform(0.1, 9, (3, 20, 1)).astype(np.float32)
    found = matching.match(source, source * scales)
    assert found.kept.all()
    assert (found.ratio == 0).all()
    large = (source / np.abs(source).max(axis=2, keepdims=True) * 65000).astype(np.float16)
    assert matching.match(large, large).kept.all()


def test_near_neighbours_are_told_apart_where_cosines_are_not():
    rng = np.random.default_rng(4)
    source = rng.standard_normal((1, 16, 64)).astype(np.float32)
    steps = rng.standard_normal((16, 64)) * 1e-5
    near, further = source + steps, source + 1.5 * steps  # cosines differ by 1e-10
    for target, offset in ((np.concatenate([near, further], 1), 0), (np.concatenate([further, near], 1), 16)):
        found = matching.match(source, target.astype(np.float32), ratio=0.7)
        assert (found.target == np.arange(16) + offset).all()
        np.testing.assert_allclose(found.ratio, 1 / 1.5, rtol=0.05)
        assert found.kept.all()


def test_a_backbone_that_says_nothing_keeps_nothing():
    row = np.random.default_rng(5).standard_normal(48)
    scales = np.random.default_rng(6).uniform(0.1, 9, (2, 30, 1))
    for tokens in (np.tile(row, (2, 30, 1)), row * scales):
        found = matching.match(tokens.astype(np.float32), tokens.astype(np.float32))
        assert not found.kept.any()
        assert (found.ratio == 1).all()
        assert (found.similarity == 1).all()
    found = matching.match(np.zeros((2, 30, 4), np.float16), np.ones((2, 30, 4), np.float16), ratio=None)
    assert not found.kept.any()
    assert (found.similarity == 0).all()
    assert not matching.match(
        np.ones((2, 30, 4), np.float16), np.zeros((2, 30, 4), np.float16), ratio=None
    ).kept.any()


def test_a_token_of_zeros_is_never_the_match_that_is_kept():
    source = np.array([[[1, 0], [0, 0], [1, 1]]], np.float16)
    target = np.array([[[-1, 0], [0, 0], [-1, -1]]], np.float16)
    found = matching.match(source, target, ratio=None)
    assert found.target.tolist() == [[1, 0, 1]]
    assert (found.similarity == 0).all()
    assert not found.kept.any()


def test_equals_go_to_the_lower_index():
    source, _ = draw(7, p=1, n=40, d=32)
    target = np.concatenate([source[:, ::-1], source[:, ::-1], source], axis=1)
    found = matching.match(source, target, ratio=None)
    assert (found.target == np.arange(40)[::-1]).all()
    assert (found.ratio == 1).all()
    few = matching.match(source, target, ratio=None, num_corr=7)
    assert np.flatnonzero(few.kept).tolist() == list(range(7))
    twice = np.concatenate([source, source], axis=1)
    found = matching.match(twice, source, mutual=True)  # of two equally near, the first is the one found back
    assert found.kept.tolist() == [[True] * 40 + [False] * 40]


def test_one_target_patch_has_no_rival():
    source, target = draw(8, m=1)
    found = matching.match(source, target, ratio=0.1)
    assert (found.target == 0).all()
    assert (found.ratio == 0).all()
    assert found.kept.all()
    assert matching.match(source, target, mutual=True).kept.sum(axis=1).tolist() == [1, 1, 1]


def test_masked_patches_may_hold_anything():
    source, target = draw(9)
    rng = np.random.default_rng(9)
    here, there = rng.random((3, 20)) < 0.6, rng.random((3, 24)) < 0.6
    there[2] = False
    asked = {"source_mask": here, "target_mask": there, "mutual": True}
    found = matching.match(source, target, **asked)
    source[~here], target[~there] = np.nan, np.inf
    again = matching.match(source, target, **asked)
    np.testing.assert_array_equal(found.kept, again.kept)
    np.testing.assert_array_equal(found.target[here], again.target[here])
    assert not found.kept[~here].any()
    assert there[np.nonzero(found.kept)[0], found.target[found.kept]].all()
    assert not found.kept[2].any()
    assert (found.similarity[2] == 0).all()
    assert (found.ratio[2] == 1).all()
    none = {"source_mask": np.zeros((3, 20), bool), "target_mask": there}
    assert not matching.match(source, target, **none).kept.any()


@settings(max_examples=10, deadline=None)
@given(seeds, st.booleans())
def test_the_order_of_patches_is_carried_along(seed, mutual):
    source, target = draw(seed)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(20), rng.permutation(24)
    found = matching.match(source, target, mutual=mutual)
    again = matching.match(source[:, rows], target[:, columns], mutual=mutual)
    np.testing.assert_array_equal(found.kept[:, rows], again.kept)
    np.testing.assert_array_equal(found.target[:, rows], columns[again.target])
    np.testing.assert_allclose(found.ratio[:, rows], again.ratio, atol=1e-5)


def test_a_pair_does_not_know_its_neighbours():
    source, target = draw(10, p=37)
    whole = matching.match(source, target, num_corr=9)
    for part in (slice(0, 1), slice(5, 22), slice(20, 37)):
        for all_of_them, some in zip(
            whole, matching.match(source[part], target[part], num_corr=9), strict=True
        ):
            np.testing.assert_array_equal(all_of_them[part], some)
    order = np.random.default_rng(0).permutation(37)
    for before, after in zip(whole, matching.match(source[order], target[order], num_corr=9), strict=True):
        np.testing.assert_array_equal(before[order], after)


def test_one_program_serves_any_number_of_pairs_and_any_setting():
    source, target = draw(11, p=40, n=9, m=10, d=7)
    matching.match(source[:1], target[:1])
    before = matching._block._cache_size()
    for count, ratio, num_corr in ((3, 0.8, 1000), (16, None, 500), (17, 0.5, 9), (40, 1.0, 77)):
        assert (
            len(matching.match(source[:count], target[:count], ratio=ratio, num_corr=num_corr).kept) == count
        )
    matching.match(source, target, source_mask=np.ones((40, 9), bool))
    assert matching._block._cache_size() == before


def test_memory_does_not_grow_with_the_pairs():
    n, m, d = 64, 72, 16
    arguments = [jnp.zeros((matching.TOGETHER, *shape), jnp.float16) for shape in ((n, d), (m, d))]
    masks = [jnp.ones((matching.TOGETHER, side), bool) for side in (n, m)]
    lowered = matching._block.lower(*arguments, *masks, 16, 0.9, 1000, mutual=False, few=False)
    used = lowered.compile().memory_analysis()
    if jax.default_backend() == "cpu":
        assert used.temp_size_in_bytes < 8 * 4 * n * m  # all pairs at once have 16 such tables in one copy


def test_what_cannot_be_matched_is_refused():
    source, target = draw(12)
    with pytest.raises(InputError, match="as many pairs and dims"):
        matching._check(source, target[:2], 0.9, 1000)
    with pytest.raises(InputError, match="as many pairs and dims"):
        matching._check(source, target[..., :5], 0.9, 1000)
    with pytest.raises(InputError, match="at least one of each"):
        matching.match(source[:0], target[:0])
    with pytest.raises(InputError, match="real numbers"):
        matching.match(source.astype(int), target)
    for ratio in (0.0, -1.0, 1.1, float("nan")):
        with pytest.raises(InputError, match="ratio is"):
            matching.match(source, target, ratio=ratio)
    with pytest.raises(InputError, match="num_corr is 0"):
        matching.match(source, target, num_corr=0)
    with pytest.raises(InputError, match="one truth value a patch"):
        matching._checked_mask(np.ones((3, 19), bool), (3, 20), "source")
    for bad in (np.nan, np.inf):
        broken, many = np.tile(source, (8, 1, 1)), np.tile(target, (8, 1, 1))
        broken[19, 3, 2] = bad
        for which in ((broken, many), (many, broken)):
            with pytest.raises(InputError, match=r"pair 19 .*not finite"):
                matching.match(*which)
        with pytest.raises(InputError, match="pair 19 "):
            matching.match(broken.astype(np.float32), many)


@pytest.mark.parametrize(("h", "w"), [(4, 4), (3, 5), (1, 2)])
def test_tokens_between_patches_are_those_of_scipy(h, w):
    rng = np.random.default_rng(13)
    grid = rng.standard_normal((2, h, w, 3)).astype(np.float16)
    points = rng.uniform(-20, 80, (2, 50, 2))
    found = matching.at_points(grid, points, 60)
    places = [points[..., 1] * h / 60 - 0.5, points[..., 0] * w / 60 - 0.5]
    for pair in range(2):
        for dim in range(3):
            expected = map_coordinates(
                grid[pair, ..., dim].astype(np.float64),
                [each[pair] for each in places],
                order=1,
                mode="nearest",
            )
            np.testing.assert_allclose(found[pair, :, dim], expected, atol=1e-5)


def test_tokens_at_the_centres_are_the_patches_and_unknown_points_have_none():
    grid = np.random.default_rng(14).standard_normal((1, 4, 6, 5)).astype(np.float16)
    y, x = np.mgrid[:4, :6].reshape(2, -1) + 0.5
    points = np.stack([x * 96 / 6, y * 96 / 4], axis=-1)[None]
    found = np.array(matching.at_points(grid, points, 96.0))
    np.testing.assert_allclose(found, grid.reshape(1, 24, 5).astype(np.float32), atol=1e-6)
    points[0, 3] = np.nan
    assert (np.array(matching.at_points(grid, points, 96.0))[0, 3] == 0).all()
    kept = matching.match(found, grid.reshape(1, 24, 5)).kept
    assert kept.all()
