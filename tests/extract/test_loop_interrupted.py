"""Threads, memory, and runs that end early or run beside each other."""

import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
import torch

from extract import Store
from extract.datasets import ImageSet, Lazy
from extract.errors import UnreadableImageError
from extract.loop import AHEAD


def test_threads_are_given_back(tiny_backbone, photos, place, count_passes):
    folder, _ = photos(4)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        backbone = tiny_backbone()
        passes = count_passes(backbone)
        place.extract(backbone, folder, ["cls"], batch_size=1, device="cpu")
        assert passes.threads == {1}
        assert torch.get_num_threads() == 3
        (folder / "bad.png").write_bytes(b"")
        with pytest.raises(UnreadableImageError):
            place.extract(backbone, folder, ["cls"])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert not [each for each in threading.enumerate() if each.name.startswith("extract")]


@pytest.mark.parametrize("n", [40, 160])
def test_no_more_is_read_ahead_than_is_under_way(tiny_backbone, place, n, numbered):
    image = np.zeros((32, 32, 3), np.uint8)
    lock, read, done, ahead = threading.Lock(), 0, 0, 0

    def get(position):
        nonlocal read, ahead
        with lock:
            read += 1
            ahead = max(ahead, read - done)
        return image

    def progress(count):
        nonlocal done
        with lock:
            done += count
        time.sleep(0.002)  # a slow store must slow down the reading

    images = ImageSet("grey", None, Lazy(n, get), tuple(map(str, range(n))))
    ids = numbered(n)
    place.extract(tiny_backbone(), images, ["cls"], ids=ids, batch_size=2, workers=2, progress=progress)
    assert read == done == n
    assert ahead <= (2 + AHEAD) * 2


def test_an_interrupted_run_keeps_what_was_done(tiny_backbone, photos, place):
    folder, _ = photos(12)
    backbone = tiny_backbone()
    told = []

    def interrupt(count):
        told.append(count)
        if len(told) == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        place.extract(backbone, folder, ["cls"], batch_size=2, progress=interrupt)
    there = place.present(place.plan(backbone, folder))
    assert there.sum() == 6
    assert place.extract(backbone, folder, ["cls"]).computed == 6


def test_an_interruption_does_not_wait_for_whole_batches(tiny_backbone, place, numbered):
    image = np.zeros((32, 32, 3), np.uint8)

    def get(position):
        time.sleep(0.05)
        return image

    images = ImageSet("slow", None, Lazy(200, get), tuple(map(str, range(200))))
    ids = numbered(200)
    timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        place.extract(tiny_backbone(), images, ["cls"], ids=ids, batch_size=100, workers=2)
    assert time.monotonic() - began < 3  # a batch takes 5 s


JOB = """
import time
import torch
from extract import CustomBackbone, Memo, Store, extract, open_dataset
from extract.transforms import Transform

class Means(torch.nn.Module):
    def forward(self, images):
        return images.mean((2, 3))

def run(folder, store, pause=0.0, max_seconds=20.0, ready=None):
    Store.writer.__kwdefaults__["max_seconds"] = max_seconds
    module = Means()
    transform = Transform(size=32, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    backbone = CustomBackbone(module, transform, name="means")
    module.register_forward_hook(lambda *_: time.sleep(pause))
    if ready is not None:
        ready.set()
    where = {"store": Store(store), "memo": Memo(f"{store}.memo")}
    return extract(backbone, open_dataset(folder)["all"], ["mean"], batch_size=2, workers=1, **where)

def alone(*args):
    run(*args)
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """The module `job`, and `job.start(…)`, which runs it in a process of its own."""
    (tmp_path / "job.py").write_text(JOB)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(Store.writer.__kwdefaults__, "max_seconds", 20.0)  # given back afterwards
    monkeypatch.delitem(sys.modules, "job", raising=False)
    module = importlib.import_module("job")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["extract.loop"])  # torch is imported once

    def start(*args):
        ready = context.Event()
        process = context.Process(target=module.alone, args=(*args, ready))
        process.start()
        assert ready.wait(60)
        return process

    module.start = start
    yield module
    sys.modules.pop("job")


def test_a_killed_run_resumes(job, photos, tmp_path):
    folder, _ = photos(40)
    whole = job.run(folder, tmp_path / "whole")
    (which,) = whole.plan.identities.values()
    broken = Store(tmp_path / "broken")
    process = job.start(folder, tmp_path / "broken", 0.1, 0.2)
    while not broken.present(which.digest, whole.plan.ids).any():
        assert process.is_alive()
        time.sleep(0.02)
    process.kill()
    process.join()
    there = int(broken.present(which.digest, whole.plan.ids).sum())
    assert 0 < there < 40
    resumed = job.run(folder, tmp_path / "broken")
    assert resumed.computed == 40 - there
    np.testing.assert_array_equal(resumed.plan.ids, whole.plan.ids)
    expected = Store(tmp_path / "whole").view(which.digest, whole.plan.ids).read()
    np.testing.assert_array_equal(broken.view(which.digest, whole.plan.ids).read(), expected)
    assert broken.verify() == []


def test_two_processes_at_once(job, photos, tmp_path):
    folder, colours = photos(24)
    process = job.start(folder, tmp_path / "both", 0.02, 0.1)
    done = job.run(folder, tmp_path / "both", 0.02, 0.1)
    process.join(60)
    assert process.exitcode == 0
    store, expected = Store(tmp_path / "both"), colours.mean((1, 2)) / 255
    (which,) = done.plan.identities.values()
    for _ in range(2):
        np.testing.assert_allclose(
            store.view(which.digest, done.plan.ids).read(), expected, rtol=0, atol=5e-4
        )
        assert store.verify() == []
        store.gc(older_than=0)
    assert store.identities()[0].rows == 24
