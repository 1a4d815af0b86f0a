"""What of a suite fails costs nothing else, and what was stopped goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import visbench
from visbench import results


def broken(tmp_path: Path) -> None:
    """A second data set, one image of which is cut short: hashed well, decoded badly."""
    rng = np.random.default_rng(1)
    for name in ("a", "b"):
        (tmp_path / "bad" / name).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 255, (40, 40, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "bad" / name / f"{number}.png")
    whole = (tmp_path / "bad" / "a" / "0.png").read_bytes()
    (tmp_path / "bad" / "a" / "0.png").write_bytes(whole[: len(whole) // 2])


def test_a_task_that_fails_does_not_lose_the_others(whole, command, written, seen, tmp_path):
    broken(tmp_path)
    text = whole.replace('data = "photos/"', 'data = "bad/"').replace("k = 3", "k = 1")
    failed = command("suite", written(text), code=1)
    assert "photos · retrieval" in failed.stdout
    assert failed.stderr.count("error:") == 1
    assert "error: 1  classification · " in failed.stderr
    assert "0.png" in failed.stderr
    again = command(
        "suite", "suite.toml", code=1
    )  # it is known from the start now, and still costs nothing else
    assert "photos · retrieval" in again.stdout
    assert "0 records appended" in again.stderr
    command("suite", "suite.toml", "--resume", "--fail-fast", "--only", "retrieval")
    command("suite", written(text.replace("seed = 0", 'on_bad = "skip"')))


def test_fail_fast_stops(whole, command, written, seen, tmp_path):
    broken(tmp_path)
    text = whole.replace('data = "photos/"', 'data = "bad/"').replace("k = 3", "k = 1")
    assert "0.png" in command("suite", written(text), "--fail-fast", code=2).stderr
    assert not results.read(tmp_path / "out" / "suite.jsonl", missing_ok=True)


def test_a_measurement_that_fails_does_not_lose_those_after_it(written, seen, monkeypatch):
    from visbench.classification import Classification

    measured = Classification.__call__

    def fails(self, *given):
        if self.name == "logistic":
            raise RuntimeError("a bug")
        return measured(self, *given)

    monkeypatch.setattr(Classification, "__call__", fails)
    done = visbench.run_suite(written())
    assert [each.record.probe for each in done.results] == ["knn", None]
    assert [each.reason for each in done.failures] == ["RuntimeError: a bug"]
    monkeypatch.undo()
    done = visbench.run_suite(written())
    assert [each.record.probe for each in done.results if not each.resumed] == ["logistic"]


SLOW = """
import sys, time, torch
from torch import nn
from extract.backbones import CustomBackbone, register_backbone
from extract.transforms import Transform
from visbench.cli import main

class Slow(nn.Module):
    def forward(self, images):
        sys.stderr.write(f"beat {len(images)}\\n")
        sys.stderr.flush()
        time.sleep(0.1)
        return images.mean((2, 3))

register_backbone("slow")(lambda **options: CustomBackbone(Slow(), Transform(size=8), name="slow"))
main()
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_stopped_suite_goes_on(whole, written, photos, tmp_path, number, code):
    text = (
        whole.replace("tiny", "slow").replace("layer = 0", "limit = 4").replace("seed = 0", "batch_size = 2")
    )
    command = [sys.executable, "-c", SLOW, "suite", str(written(text))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as running:
        beats = 0
        for line in running.stderr:
            beats += line.startswith("beat")
            if beats == 24:  # the first ones look at what the backbone is
                break
        running.send_signal(number)
        said = running.communicate(timeout=60)[1]
    assert running.returncode == code, said
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "3 records appended" in again.stderr
    if number != signal.SIGKILL:  # which loses the part in flight
        assert int(again.stderr.split("extracting  slow  ")[1].split()[0]) < 54
    assert len(results.read(tmp_path / "out" / "suite.jsonl")) == 3
