import subprocess
import sys

import numpy as np
import pytest

from extract import Store
from extract import plan as planning
from extract.errors import InputError


@pytest.fixture
def spec(tiny_backbone):
    return tiny_backbone().spec


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def fill(store, plan, tap, rows):
    """Store rows of one tap of a plan, as an extraction would."""
    which = plan.identities[tap]
    with store.writer(which, (5,), plan.dtype) as writer:
        writer.add(plan.ids[rows], np.zeros((len(rows), 5), np.float32))


def test_what_is_missing_by_tap(spec, store, numbered):
    ids = numbered(6)
    plan = planning.make(spec, ["cls", "mean"], ids, store=store)
    cls, mean = plan.identities
    assert plan.passes == 6
    fill(store, plan, cls, [0, 1, 2])
    fill(store, plan, mean, [2, 3])
    plan = planning.make(spec, ["cls", "mean"], ids, store=store)
    assert np.flatnonzero(plan.lacking[cls]).tolist() == [3, 4, 5]
    assert np.flatnonzero(plan.lacking[mean]).tolist() == [0, 1, 4, 5]
    assert np.flatnonzero(plan.missing).tolist() == [0, 1, 3, 4, 5]
    assert plan.passes == 5


def test_a_picture_that_stands_twice_counts_once(spec, store, numbered):
    ids = numbered(4)[[2, 0, 2, 1, 0]]
    plan = planning.make(spec, ["cls"], ids, store=store)
    assert np.flatnonzero(plan.missing).tolist() == [0, 1, 3]


def test_bytes_are_those_of_the_rows(spec, store, numbered):
    ids = numbered(10)
    (cls,) = planning.make(spec, ["cls"], ids, store=store).identities
    assert planning.make(spec, ["cls"], ids, store=store).bytes == 10 * (5 * 2 + 16)
    both = planning.make(spec, ["cls", "patches"], ids, store=store, dtype="float32")
    assert both.bytes == 10 * (5 * 4 + 16) + 10 * (4 * 4 * 5 * 4 + 16)
    fill(store, both, cls, list(range(10)))
    assert planning.make(spec, ["cls"], ids, store=store, dtype="float32").bytes == 0


def test_taps_are_resolved_and_each_kept_once(spec, store, numbered):
    plan = planning.make(spec, "default,cls@-1,cls@1,mean@0", numbered(1), store=store)
    assert [str(tap) for tap in plan.identities] == ["cls@1", "mean@0"]
    with pytest.raises(InputError, match="no tap"):
        planning.make(spec, [], numbered(1), store=store)
    with pytest.raises(InputError, match="no layer 7"):
        planning.make(spec, ["cls@7"], numbered(1), store=store)


def test_no_images_need_nothing(spec, store, numbered):
    plan = planning.make(spec, ["cls"], numbered(0), store=store)
    assert (plan.passes, plan.bytes, plan.missing.shape) == (0, 0, (0,))


def test_a_plan_needs_no_torch():
    ask = "import extract.plan, sys; print({'torch', 'torchvision', 'timm'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
