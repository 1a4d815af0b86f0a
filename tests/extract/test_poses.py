import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from extract import poses
from extract.errors import InputError
from probes.metrics import pose as metric


def draw(count, seed):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(count, 4)), rng.normal(size=(count, 3))], axis=1)


def test_relative_poses_and_angles_are_those_of_the_metric_and_of_scipy():
    first, second = draw(50, 1), draw(50, 2)
    np.testing.assert_allclose(poses.relative(first, second), metric.relative(first, second), atol=1e-12)
    one, two = (Rotation.from_quat(np.roll(each[:, :4], -1, axis=1)) for each in (first, second))
    found = poses.relative(first, second)
    np.testing.assert_allclose(
        Rotation.from_quat(np.roll(found[:, :4], -1, axis=1)).as_matrix(),
        (two * one.inv()).as_matrix(),
        atol=1e-12,
    )
    point = np.random.default_rng(0).normal(size=(50, 3))
    in_first, in_second = one.apply(point) + first[:, 4:], two.apply(point) + second[:, 4:]
    turn = Rotation.from_quat(np.roll(found[:, :4], -1, axis=1))
    np.testing.assert_allclose(turn.apply(in_first) + found[:, 4:], in_second, atol=1e-12)
    np.testing.assert_allclose(
        poses.angle_deg(first[:, :4], second[:, :4]), np.rad2deg((two * one.inv()).magnitude()), atol=1e-9
    )


@pytest.mark.parametrize(
    "numbers", [[1] * 6, [0, 0, 0, 0, 1, 2, 3], [1, 0, 0, 0, 1, 2, float("nan")], ["a"] * 7]
)
def test_what_is_no_pose_is_refused(numbers):
    with pytest.raises(InputError, match="row 3 has the pose"):
        poses.check_pose(numbers, "t.csv, row 3")
