"""The text tower beside an image tower, against open_clip's own classifier, on models of a few thousand values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch

from extract import Memo, Store, texts
from extract.backbones import load, text
from extract.errors import InputError
from extract.requests import Request
from extract.texts import resolve
from probes import zeroshot

NAMES = ["tench", "great white shark", "crane (bird)", "Café"]
TEMPLATES = ["a photo of a {}.", "a blurry photo of the {}.", "itap of my {}."]


@pytest.fixture(scope="module")
def tiny_clips(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Architectures by the names clip-tiny (and clip-tiny-mean, clip-tiny-hub, clip-tiny-late)."""
    vision = {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8}
    words = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2}
    variants: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "clip-tiny": ({}, {}),
        "clip-tiny-mean": ({"pool_type": "avg"}, {}),
        "clip-tiny-late": ({"pool_type": "avg", "final_ln_after_pool": True}, {}),
        "clip-tiny-hub": ({}, {"hf_tokenizer_name": "somebody/words"}),
    }
    folder = tmp_path_factory.mktemp("configs")
    for name, (image, word) in variants.items():
        config = {"embed_dim": 12, "vision_cfg": {**vision, **image}, "text_cfg": {**words, **word}}
        (folder / f"{name}.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder)
    yield
    for name in variants:
        open_clip.factory._MODEL_CONFIGS.pop(name)


def request(name: str = "clip-tiny", **options: Any) -> Request:
    given = {"pretrained": False} if "checkpoint" not in options else {}
    return Request(f"open_clip:{name}", image_size=32, projection=True, **given, **options)


def whole_model(seed: int = 0, name: str = "clip-tiny") -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return open_clip.create_model(name).eval()


def said(names: list[str] = NAMES) -> list[str]:
    return [template.replace("{}", name) for name in names for template in TEMPLATES]


@pytest.fixture
def memo(tmp_path: Path) -> Memo:
    return Memo(tmp_path / "memo.sqlite")


def test_classes_lie_where_open_clip_puts_them(tiny_clips: None, memo: Memo, tmp_path: Path) -> None:
    model, tokenizer = whole_model(), open_clip.get_tokenizer("clip-tiny")
    expected = open_clip.build_zero_shot_classifier(model, tokenizer, NAMES, TEMPLATES).T.numpy()
    store, spec = Store(tmp_path / "store"), resolve(request(), "clip", memo)
    texts.ensure(request(), spec, said(), store=store, device="cpu")
    rows = texts.read(spec, said(), store)
    with torch.inference_mode():
        np.testing.assert_allclose(rows, model.encode_text(tokenizer(said())).numpy(), atol=1e-5)
    found = zeroshot.class_embeddings(rows, np.repeat(np.arange(4), 3), num_classes=4)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(("name", "pool"), [("clip-tiny", "cls"), ("clip-tiny-mean", "mean")])
def test_the_tap_of_the_image_embedding(tiny_clips: None, memo: Memo, name: str, pool: str) -> None:
    backbone, spec = load(request(name)), resolve(request(name), "clip", memo)
    assert spec.image_pool == backbone.spec.default_pool == pool
    assert spec.image_weights == backbone.spec.weights
    assert spec.dims == backbone.spec.layer_dims[-1] == 12
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    found = backbone.extract_features(images)["pooled"]
    with torch.inference_mode():
        torch.testing.assert_close(found, whole_model(name=name).encode_image(images), rtol=1e-5, atol=1e-5)


def test_both_towers_of_a_checkpoint(tiny_clips: None, memo: Memo, tmp_path: Path) -> None:
    model, file = whole_model(seed=5), tmp_path / "clip.pt"
    openai = {"input_resolution": 32, "context_length": 77, "vocab_size": 49408}
    state = {"state_dict": model.state_dict() | {key: torch.tensor(it) for key, it in openai.items()}}
    torch.save(state, file)
    asked = request(checkpoint=str(file))
    spec = resolve(asked, "clip", memo)
    assert (spec.random_params, spec.options) == (0, {"quick_gelu": True})
    assert spec.image_weights == load(asked).spec.weights
    assert spec.weights != resolve(request(), "clip", memo).weights
    quick = open_clip.create_model("clip-tiny", force_quick_gelu=True).eval()
    quick.load_state_dict(model.state_dict())
    with torch.inference_mode():
        expected = quick.encode_text(open_clip.get_tokenizer("clip-tiny")(said())).numpy()
    np.testing.assert_allclose(text.load(asked).embed(said()), expected, atol=1e-5)
    assert len({str(resolve(each, "clip", memo).identity().digest) for each in (asked, request())}) == 2


def test_weights_without_a_text_tower_are_refused(tiny_clips: None, memo: Memo, tmp_path: Path) -> None:
    images_only = {key: it for key, it in whole_model().state_dict().items() if key.startswith("visual.")}
    torch.save(images_only, tmp_path / "images.pt")
    with pytest.raises(InputError, match=r"images.pt does not fit the model: \d+ missing \(positional_embe"):
        resolve(request(checkpoint=str(tmp_path / "images.pt")), "clip", memo)


def test_what_was_seen_before_needs_no_model(
    tiny_clips: None, memo: Memo, tmp_path: Path, monkeypatch
) -> None:
    store, spec = Store(tmp_path / "store"), resolve(request(), "clip", memo)
    texts.ensure(request(), spec, said(), store=store, device="cpu")
    rows = texts.read(spec, said(), store)
    monkeypatch.setattr(text, "load", lambda asked: pytest.fail("the model was loaded again"))
    again = resolve(request(), "clip", memo)
    assert again == spec
    texts.ensure(request(), again, said()[::-1], store=store)
    np.testing.assert_array_equal(texts.read(again, said()[::-1], store), rows[::-1])
    assert texts.lacking(again, ["new", *said(), "new"], store) == ["new"]


def test_a_text_that_would_be_cut_is_refused(tiny_clips: None) -> None:
    tower = text.load(request())
    tower.refuse_long(["word " * 75])
    with pytest.raises(InputError, match=r"reads 75 tokens of a text, and 1 text is longer: \"word word"):
        tower.refuse_long(["word " * 76, "short"])


def test_what_no_text_can_be_compared_with_is_refused(tiny_clips: None, memo: Memo) -> None:
    with pytest.raises(
        InputError, match=r"tokenizer of open_clip:clip-tiny-hub \(somebody/words\) lies on a hub"
    ):
        resolve(request("clip-tiny-hub"), "clip", memo)
    with pytest.raises(InputError, match="makes its embedding in a pooling of its own"):
        resolve(request("clip-tiny-late"), "clip", memo)
    with pytest.raises(InputError, match="tokenizer of open_clip:ViT-B-16-SigLIP/webli"):
        resolve(Request("open_clip:ViT-B-16-SigLIP/webli", pretrained=False), "clip", memo)
    with pytest.raises(
        InputError, match=r"efficientnet_lite0 has no text tower.* take clip_vitb32, clip_vitb16"
    ):
        resolve(Request("efficientnet_lite0"), "efficientnet_lite0", memo)
    with pytest.raises(InputError, match="came as a loaded backbone"):
        resolve(None, "clip", memo)
