"""What is said beside a score: heads that did not learn, and those that lost their way."""

import numpy as np
import pytest

from probes.maps.normals import Normals
from probes.maps.response import Response
from visbench.dense import hints


@pytest.mark.parametrize(
    ("own", "constant", "lower", "said"),
    [
        (0.3, 0.5, False, 1),
        (0.6, 0.5, False, 0),
        (30, 45, True, 0),
        (50, 45, True, 1),
        (0.7, np.nan, False, 0),
    ],
)
def test_a_head_that_knows_less_than_a_constant_is_told_of(own, constant, lower, said):
    assert len(hints.idle({"score": own}, {"score": constant}, "score", 1.0, lower=lower)) == said


def test_normals_worse_than_one_direction_are_told_of():
    far, near = {"mean": 95.0}, {"mean": 40.0}
    (text,) = hints.astray(Normals(), far, near)
    assert "95.0° is larger than that of one direction everywhere, 40.0°; --no-uncertainty" in text
    assert not hints.astray(Normals(), near, far)
    assert "uncertainty" not in hints.astray(Normals(uncertainty=False), far, near)[0]
    assert not hints.astray(Response("edge_correlation"), far, near)
