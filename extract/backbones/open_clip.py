"""`open_clip:ARCHITECTURE/TAG`: the image tower of a contrastive model; the text tower is thrown away.

Tokens are those before the projection, after the tower's last norm.  With projection=True every token goes
through the projection as well, so `cls` is the image embedding, not normalised.  open_clip's own code
downloads, maps keys and resamples position embeddings; a checkpoint goes the way a download goes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import open_clip
import torch
from open_clip.model import ModifiedResNet
from open_clip.pretrained import download_pretrained, download_pretrained_from_hf
from open_clip.timm_model import TimmModel
from open_clip.transformer import VisionTransformer
from torch import Tensor, nn

from extract import transforms
from extract.backbones import timm
from extract.backbones.base import Backbone, Facts, Layer
from extract.backbones.checkpoints import (
    Loading,
    State,
    check,
    fetching,
    quiet,
    random_parameters,
    read_checkpoint,
    watched,
)
from extract.backbones.refusals import check_size, no_norm, unknown
from extract.errors import InputError
from extract.requests import Request, minor
from extract.transforms import ImageTransform

OPENAI_EXTRAS = ("input_resolution", "context_length", "vocab_size")  # only OpenAI's own files bear them


class Asked(NamedTuple):
    """What a request names, before anything is built."""

    architecture: str
    config: dict[str, Any]
    card: dict[str, Any]
    size: int  # of images, in pixels


class Made(NamedTuple):
    """open_clip's model with its weights, and what is known of it."""

    model: Any
    loadings: list[Loading]
    name: str
    architecture: str
    library: str
    source: str  # of the weights
    loaded: bool  # False: they are random
    quick: bool  # whether it uses QuickGELU
    corrected: tuple[str, ...]


def load(request: Request) -> Backbone:
    """The image tower that `request` names."""
    what = asked(request)
    tower, facts = _tower(request, what)
    transform, overrides = transforms.for_request(
        request,
        size=what.size,
        mean=tuple(what.card["mean"]),
        std=tuple(what.card["std"]),
        interpolation=what.card["interpolation"],
    )
    return _wrap(tower, transform, facts.plus(*overrides), request)


def asked(request: Request) -> Asked:
    """What `request` names; refused where open_clip has no such thing."""
    architecture, _, tag = request.model.partition("/")
    config = _config(architecture)
    card = _card(request, architecture, tag)
    vision = config["vision_cfg"]
    size = int(vision.get("image_size", 224) if request.image_size == "native" else request.image_size)
    patch = vision.get("patch_size") or timm.patch_in_name(vision.get("timm_model_name", ""))
    check_size(size, patch, request.name)
    return Asked(architecture, config, card, size)


def make(request: Request, what: Asked, *, text: bool = False) -> Made:
    """open_clip's model, as `extract.backbones.text` makes it too.

    Without `text`, what a checkpoint says of the text tower is not read, and that tower is of no use.
    """
    stages = isinstance(what.config["vision_cfg"].get("layers"), list)  # which take images of any size
    with _weights_file(request, what.card, text=text) as (path, source, original):
        quick, corrected = _activation(what.config, what.card, original)
        with torch.random.fork_rng(devices=[]), watched() as loadings, quiet():
            torch.manual_seed(request.seed)
            model = open_clip.create_model(
                what.architecture,
                pretrained=path,
                quick_gelu=quick,
                force_image_size=None if stages else what.size,
                pretrained_text=False,
            )
    return Made(
        model,
        loadings,
        name=f"open_clip:{request.model}",
        architecture=what.architecture.removesuffix("-quickgelu"),
        library=f"open_clip {minor('open-clip-torch')}",
        source=source,
        loaded=path is not None,
        quick=quick,
        corrected=corrected,
    )


def _tower(request: Request, what: Asked) -> tuple[nn.Module, Facts]:
    """open_clip's image tower, and what is known of it."""
    made = make(request, what)
    missing = check(
        made.loadings,
        source=made.source,
        strict=request.strict,
        matters=lambda key: key.startswith("visual."),
    )
    count, notes = random_parameters(made.model.visual, missing if made.loaded else None, made.source)
    return made.model.visual, Facts(
        name=made.name,
        architecture=made.architecture,
        library=made.library,
        weights_source=made.source,
        alias=request.alias,
        random_params=count,
        precision=request.precision,
        options={"quick_gelu": made.quick},
        notes=made.corrected + notes,
    )


def _wrap(tower: Any, transform: ImageTransform, facts: Facts, request: Request) -> Backbone:
    if isinstance(tower, VisionTransformer):
        return TowerBackbone(tower, transform, facts, norm=request.norm, projection=request.projection)
    if request.projection:
        raise InputError(
            f"the tower of {facts.name} pools before it projects, so its tokens have no projection"
        )
    if isinstance(tower, TimmModel):
        return timm.wrap(tower.trunk, transform, facts, norm=request.norm)
    if isinstance(tower, ModifiedResNet):
        no_norm(request.norm, facts.name)
        return ResNetBackbone(tower.to(memory_format=torch.channels_last), transform, facts)
    raise InputError(f"the tower of {facts.name} is a {type(tower).__name__}, which we cannot read by layers")


class TowerBackbone(Backbone):
    """open_clip's own vision transformer; every block is a layer."""

    num_prefix_tokens = 1
    has_cls = True

    def __init__(
        self,
        tower: VisionTransformer,
        transform: ImageTransform,
        facts: Facts,
        *,
        norm: bool,
        projection: bool,
    ) -> None:
        if tower.attn_pool is not None and (norm or projection):
            raise InputError(
                f"{facts.name} norms its tokens only after pooling them; pass norm=False, and no projection"
            )
        if projection and not norm:
            raise InputError("the projection follows the last norm; projection=True goes with norm=True")
        self.num_layers = len(tower.transformer.resblocks)
        self.patch_size = tower.patch_size[0]
        self.default_pool = "mean" if tower.pool_type == "avg" else "cls"
        self._norm, self._projection = norm, projection
        super().__init__(tower, transform, facts.plus(norm=norm, projection=projection))

    def read(self, images: Tensor, layers: Sequence[int]) -> dict[int, Layer]:
        """Every wanted block of one forward pass; blocks after the last one wanted are not run."""
        found = self.module.forward_intermediates(  # type: ignore[operator]
            images,
            indices=list(layers),
            stop_early=True,
            normalize_intermediates=self._norm,
            intermediates_only=True,
            output_extra_tokens=True,
        )
        pairs = zip(found["image_intermediates_prefix"], found["image_intermediates"], strict=True)
        read = (Layer.of_map(tokens, prefix) for prefix, tokens in pairs)
        return dict(zip(layers, map(self._projected, read), strict=True))

    def _projected(self, layer: Layer) -> Layer:
        if not self._projection:
            return layer
        projection: Any = self.module.proj
        return Layer(layer.prefix @ projection, layer.patches @ projection, layer.grid)


class ResNetBackbone(Backbone):
    """OpenAI's modified ResNet: four stages; its attention pool, which only makes the embedding, is left out."""

    num_layers = 4

    def read(self, images: Tensor, layers: Sequence[int]) -> dict[int, Layer]:
        """The wanted stages; entry 0 of open_clip's five is the stem."""
        found = self.module.forward_intermediates(  # type: ignore[operator]
            images, indices=[layer + 1 for layer in layers], intermediates_only=True
        )
        return dict(zip(layers, map(Layer.of_map, found["image_intermediates"]), strict=True))


def _config(architecture: str) -> dict[str, Any]:
    config = open_clip.get_model_config(architecture) if ":" not in architecture else None
    if config is None:
        raise unknown(architecture, open_clip.list_models(), f'open_clip has no model "{architecture}"')
    found: dict[str, Any] = config
    return found


def _card(request: Request, architecture: str, tag: str) -> dict[str, Any]:
    """open_clip's record of a set of weights: where they are, mean and std, and the activation they need."""
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if tag and tag not in tags:
        raise unknown(tag, tags, f'{architecture} has no weights "{tag}"')
    if not tag and request.pretrained and request.checkpoint is None:
        raise InputError(
            f"say which weights of {architecture}: open_clip:{architecture}/TAG with TAG one of {', '.join(tags)}"
        )
    plain = {
        "mean": open_clip.OPENAI_DATASET_MEAN,
        "std": open_clip.OPENAI_DATASET_STD,
        "interpolation": "bicubic",
    }
    return {**plain, **(open_clip.get_pretrained_cfg(architecture, tag) if tag else {})}


@contextmanager
def _weights_file(
    request: Request, card: dict[str, Any], *, text: bool
) -> Iterator[tuple[str | None, str, State]]:
    """(file, where it is from, the state dict of a checkpoint) for as long as the file is needed."""
    if request.checkpoint is not None:
        state = read_checkpoint(request.checkpoint)
        with tempfile.TemporaryDirectory() as folder:  # open_clip takes a path, and our reader opens wrappers
            path = Path(folder) / "checkpoint.pt"
            torch.save(state if text else _tower_only(state), path)
            yield str(path), f"checkpoint {Path(request.checkpoint).name}", state
    elif request.pretrained:
        with fetching(request.name):
            place, source = _download(card, request)
        yield place, source, {}
    else:
        yield None, f"random seed {request.seed}", {}


def _tower_only(state: State) -> State:
    """Without the text tower, which is never read, unless the names are foreign ones that open_clip maps."""
    kept = {key: value for key, value in state.items() if key.startswith(("visual.", "logit_"))}
    return kept if any(key.startswith("visual.") for key in kept) else state


def _download(card: dict[str, Any], request: Request) -> tuple[str, str]:
    place = card.get("hf_hub", "")
    if request.revision is None:
        return download_pretrained(card), f"hub {place or card['url']}"
    if not place:
        raise InputError(f"the weights of {request.name} are on no hub with revisions; leave revision= out")
    hub, _, filename = place.rpartition("/")
    path = download_pretrained_from_hf(hub, filename=filename or None, revision=request.revision)
    return path, f"hub {hub}@{request.revision}"


def _activation(
    config: dict[str, Any], card: dict[str, Any], original: State
) -> tuple[bool, tuple[str, ...]]:
    """Whether QuickGELU is right: the weights decide where they say, else the architecture; with a note."""
    configured = bool(config.get("quick_gelu", False))
    needed = (
        True if all(key in original for key in OPENAI_EXTRAS) else bool(card.get("quick_gelu", configured))
    )
    if "timm_model_name" in config["vision_cfg"] or needed == configured:
        return configured, ()
    used, unused = ("QuickGELU", "GELU") if needed else ("GELU", "QuickGELU")
    return needed, (f"trained with {used}, so it is used in place of the architecture's {unused}",)
