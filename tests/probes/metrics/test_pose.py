import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from probes.errors import InputError
from probes.metrics import pose

seeds = st.integers(0, 2**32 - 1)


def draw(count, seed=0, angle=None):
    """Poses as ours, and their rotations as scipy's."""
    rng = np.random.default_rng(seed)
    turns = Rotation.random(count, rng=rng)
    if angle is not None:
        axes = rng.normal(size=(count, 3))
        turns = Rotation.from_rotvec(axes / np.linalg.norm(axes, axis=1, keepdims=True) * angle)
    quaternions = np.roll(turns.as_quat(), 1, axis=1)
    return np.concatenate([quaternions, rng.normal(size=(count, 3))], axis=1), turns


def matrices(poses):
    """4 × 4, by scipy."""
    found = np.tile(np.eye(4), (len(poses), 1, 1))
    found[:, :3, :3] = Rotation.from_quat(np.roll(poses[:, :4], -1, axis=1)).as_matrix()
    found[:, :3, 3] = poses[:, 4:]
    return found


@given(seeds)
def test_products_and_rotations_are_those_of_scipy(seed):
    (first, one), (second, two) = draw(5, seed), draw(5, seed + 1)
    both = np.roll((one * two).as_quat(), 1, axis=1)
    np.testing.assert_allclose(
        pose.canonical(pose.multiply(first[:, :4], second[:, :4])), pose.canonical(both), atol=1e-12
    )
    np.testing.assert_allclose(pose.rotate(first[:, :4], first[:, 4:]), one.apply(first[:, 4:]), atol=1e-12)


@given(seeds)
def test_a_relative_pose_takes_the_first_cameras_axes_into_the_seconds(seed):
    (first, _), (second, _) = draw(5, seed), draw(5, seed + 1)
    expected = matrices(second) @ np.linalg.inv(matrices(first))
    found = pose.relative(first, second)
    np.testing.assert_allclose(matrices(found), expected, atol=1e-10)
    assert (found[:, 0] >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(found[:, :4], axis=1), 1)


def test_the_axes_of_the_world_do_not_matter_to_it():
    (first, _), (second, _), (world, _) = draw(6, 1), draw(6, 2), draw(6, 3)
    moved = [matrices(each) @ matrices(world) for each in (first, second)]
    again = []
    for each in moved:
        quaternion = np.roll(Rotation.from_matrix(each[:, :3, :3]).as_quat(), 1, axis=1)
        again.append(np.concatenate([quaternion, each[:, :3, 3]], axis=1))
    np.testing.assert_allclose(pose.relative(*again), pose.relative(first, second), atol=1e-10)


@given(seeds, st.booleans())
def test_the_angle_is_that_of_scipy_whatever_the_signs(seed, turned):
    (first, one), (second, two) = draw(4, seed), draw(4, seed + 1)
    expected = np.rad2deg((one.inv() * two).magnitude())
    sign = -1.0 if turned else 1.0
    np.testing.assert_allclose(
        pose.angle_deg(sign * first[:, :4], second[:, :4]), expected, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("degrees", [0.0, 1e-9, 1e-5, 90.0, 179.999999, 180.0])
def test_small_and_large_angles_keep_their_digits(degrees):
    turned, _ = draw(3, 5, angle=np.deg2rad(degrees))
    still = np.tile([1.0, 0, 0, 0], (3, 1))
    np.testing.assert_allclose(pose.angle_deg(turned[:, :4], still), degrees, rtol=1e-7, atol=1e-14)


def test_of_a_half_turn_one_quaternion_is_meant():
    flat = np.array([[0.0, 0.6, -0.8, 0.0], [0.0, -0.6, 0.8, 0.0], [0.0, 0.0, 0.0, -2.0]])
    np.testing.assert_array_equal(pose.canonical(flat), [[0, 0.6, -0.8, 0], [0, 0.6, -0.8, 0], [0, 0, 0, 1]])


@given(seeds)
def test_the_mean_is_that_of_scipy_whatever_the_signs(seed):
    poses, turns = draw(9, seed, angle=0.7)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (9, 1))
    mean = pose.mean_pose(np.concatenate([signs * poses[:, :4], poses[:, 4:]], axis=1))
    expected = np.roll(turns.mean().as_quat(), 1)
    assert pose.angle_deg(mean[:4], expected) < 1e-6
    np.testing.assert_allclose(mean[4:], poses[:, 4:].mean(axis=0))


def test_values_are_means_and_shares_of_the_errors():
    target, _ = draw(7, 1)
    predicted, _ = draw(7, 2)
    found = pose.errors(predicted, target)
    rotation, translation = found["rotation_error_deg"], found["translation_error_m"]
    np.testing.assert_allclose(translation, np.linalg.norm(predicted[:, 4:] - target[:, 4:], axis=1))
    rotation = np.array([1.0, 15, 15.1, 29, 31, 90, 180])
    values = pose.value(rotation, translation)
    assert values["rotation_error_deg"] == pytest.approx(rotation.mean())
    assert values["rotation_error_median_deg"] == 29
    assert values["within_15"] == pytest.approx(2 / 7)
    assert values["within_30"] == pytest.approx(4 / 7)
    assert values["translation_error_m"] == pytest.approx(translation.mean())


@given(seeds)
def test_a_pair_that_counts_twice_is_as_if_it_were_there_twice(seed):
    rng = np.random.default_rng(seed)
    rotation, translation = rng.integers(0, 8, 6) * 20.0, rng.random(6)
    times = rng.integers(0, 4, (3, 6)).astype(float)
    times[:, 0] += 1
    found = pose.value(rotation, translation, times)
    for row, each in enumerate(times):
        chosen = np.repeat(np.arange(6), each.astype(int))
        expected = pose.value(rotation[chosen], translation[chosen])
        for name, value in expected.items():
            np.testing.assert_allclose(found[name][row], value)
        assert expected["rotation_error_median_deg"] == np.median(rotation[chosen])


def test_a_resample_of_nothing_has_no_value():
    found = pose.value(np.ones(3), np.ones(3), np.zeros((1, 3)))
    assert all(np.isnan(each).all() for each in found.values())


@pytest.mark.parametrize(
    ("poses", "said"),
    [
        (np.ones((3, 6)), r"shape \(3, 6\)"),
        (np.zeros((0, 7)), r"shape \(0, 7\)"),
        (np.array([[1.0] * 7, [0.0] * 4 + [1.0] * 3]), "row 1"),
        (np.array([[1.0] * 6 + [np.nan]]), "no pose"),
    ],
)
def test_what_is_no_pose_is_refused(poses, said):
    with pytest.raises(InputError, match=said):
        pose.check_poses(poses)
