"""The text tower of `open_clip:ARCHITECTURE/TAG`, which the image backbone throws away, and its tokenizer.

A model is loaded whole here, the way its image tower is, so that both halves are of the same weights.  The tokenizer
is CLIP's byte pairs, which open_clip ships; those that lie on a hub are refused.  In float32, whatever the images take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import open_clip
import torch
from open_clip.tokenizer import SimpleTokenizer
from open_clip.transformer import VisionTransformer

from extract.backbones import open_clip as image_side
from extract.backbones.checkpoints import check, quiet
from extract.digests import weights_digest
from extract.errors import InputError
from extract.machine import find_device
from extract.requests import Request
from extract.spec import digest_json
from extract.texts import TextSpec
from extract.wording import counted

_SHOWN = 3


def load(request: Request) -> TextTower:
    """The text tower beside the image tower that `request` names.

    Refused where the tokenizer is out of reach, the weights hold no text tower, or no tap of the image tower is the
    image embedding.
    """
    asked = image_side.asked(request)
    tokenizer = _tokenizer(asked, request.name)
    made = image_side.make(request, asked, text=True)
    missing = check(made.loadings, source=made.source, strict=request.strict, matters=_of_text)
    visual, model = made.model.visual, made.model
    pool = _image_pool(visual, request.name)
    image_weights = weights_digest(visual.state_dict())
    model.visual = torch.nn.Identity()  # half of the memory, and never called
    model = model.eval().requires_grad_(False)
    state = {key: value for key, value in model.state_dict().items() if _of_text(key)}
    random = missing if made.loaded else sum(value.numel() for value in state.values())
    with torch.inference_mode():
        dims = model.encode_text(tokenizer(["a"])).shape[1]
    spec = TextSpec(
        name=made.name,
        architecture=made.architecture,
        library=made.library,
        weights=weights_digest(state),
        image_weights=image_weights,
        image_pool=pool,
        dims=dims,
        tokenizer=_described(tokenizer),
        options={"quick_gelu": made.quick},
        random_params=random,
    )
    return TextTower(model, tokenizer, spec)


class TextTower:
    """A frozen text tower in eval mode."""

    def __init__(self, model: Any, tokenizer: Any, spec: TextSpec) -> None:
        self.module, self.tokenizer, self.spec = model, tokenizer, spec
        self._device = torch.device("cpu")

    def to(self, device: str | None) -> TextTower:
        """Move to the device called so, by default the best one."""
        self._device = find_device(device)
        self.module.to(self._device)
        return self

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """(m, d) float32 embeddings in the space of the images; not normalised."""
        tokens = self.tokenizer(list(texts)).to(self._device)
        with torch.inference_mode():
            rows: np.ndarray = self.module.encode_text(tokens).float().cpu().numpy()
        return rows

    def refuse_long(self, texts: Sequence[str]) -> None:
        """Refuse texts of which the model would not see the end: the tokenizer would cut them without a word."""
        room = self.tokenizer.context_length - 2  # for the tokens at its start and its end
        long = [text for text in texts if len(self.tokenizer.encode(text)) > room]
        if long:
            named = "; ".join(f'"{text[:80]}…"' if len(text) > 80 else f'"{text}"' for text in long[:_SHOWN])
            more = f" and {len(long) - _SHOWN} more" if len(long) > _SHOWN else ""
            raise InputError(
                f"{self.spec.name} reads {room} tokens of a text, and {counted(len(long), 'text')} "
                f"{'is' if len(long) == 1 else 'are'} longer: {named}{more}; give shorter class names or templates"
            )


def _tokenizer(asked: image_side.Asked, name: str) -> SimpleTokenizer:
    """CLIP's own; of a model that has another it is refused before anything is built or downloaded."""
    config = asked.config["text_cfg"]
    foreign = config.get("hf_tokenizer_name") or config.get("hf_model_name")
    if not foreign:
        with quiet():
            tokenizer = (
                open_clip.get_tokenizer(asked.architecture)
                if "siglip" not in asked.architecture.lower()
                else None
            )
        if isinstance(tokenizer, SimpleTokenizer):
            return tokenizer
    raise InputError(
        f"the tokenizer of {name} ({foreign or 'SentencePiece'}) lies on a hub and not in open_clip, and a text "
        "cannot be told to the model without; take a model with CLIP's own tokenizer, such as clip_vitb32"
    )


def _image_pool(visual: Any, name: str) -> str:
    """The tap that is the image embedding once it is projected."""
    pooled = isinstance(visual, VisionTransformer) and visual.attn_pool is None and visual.proj is not None
    if pooled and visual.pool_type == "tok":
        return "cls"
    if pooled and visual.pool_type == "avg" and not visual.final_ln_after_pool:
        return "mean"
    raise InputError(
        f"the image tower of {name} makes its embedding in a pooling of its own, which no tap gives; texts can be "
        "compared with images of plain vision transformers, such as clip_vitb32"
    )


def _described(tokenizer: SimpleTokenizer) -> dict[str, Any]:
    """What its tokens depend on."""
    return {
        "kind": type(tokenizer).__name__,
        "context_length": tokenizer.context_length,
        "clean": tokenizer.clean_fn.__name__,
        "vocabulary": digest_json([list(tokenizer.encoder), sorted(map(list, tokenizer.bpe_ranks))]),
    }


def _of_text(key: str) -> bool:
    """Whether a parameter is the text tower's: not the image tower's, a scale, or a number that OpenAI's files bear."""
    return not key.startswith(("visual.", "logit_")) and key not in image_side.OPENAI_EXTRAS
