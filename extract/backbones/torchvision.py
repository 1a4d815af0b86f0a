"""`torchvision:NAME[/WEIGHTS]`: convolutional models by their maps at strides 4, 8, 16, 32, ViTs by their blocks.

torchvision keeps no list of a model's stages, but its models are sequences of modules: the last map at each
stride is a stage's, and the last of all is what the model would pool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import relu
from torchvision import models
from torchvision.models.vision_transformer import VisionTransformer, interpolate_embeddings

from extract import transforms
from extract.backbones.base import Backbone, Facts, Layer
from extract.backbones.checkpoints import State, check, fetching, random_parameters, read_checkpoint, watched
from extract.backbones.refusals import check_size, no_norm, no_projection, unknown
from extract.errors import InputError
from extract.requests import Request, minor
from extract.transforms import ImageTransform

_STRIDE = 4  # of the first stage
_TRUNKS = (  # what `forward` runs before it pools, by the names of its parts
    ("features",),
    ("stem", "trunk_output"),
    ("stem", "blocks"),
    ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4"),
    ("conv1", "maxpool", "stage2", "stage3", "stage4", "conv5"),
    ("layers",),
)
_CLASSIFIERS = ("fc.", "classifier.", "heads.", "head.")


def load(request: Request) -> Backbone:
    """The model that `request` names, with its default weights or those after the slash."""
    no_projection(request)
    name, _, which = request.model.partition("/")
    weights = _weights(name, which)
    own = _preset(weights)
    size = own["size"] if request.image_size == "native" else int(request.image_size)
    module, facts = _create(request, name, weights, size)
    transform, overrides = transforms.for_request(request, **{**own, "size": size})
    facts = facts.plus(*overrides)
    if isinstance(module, VisionTransformer):
        return ViTBackbone(module, transform, facts, norm=request.norm)
    no_norm(request.norm, request.name)
    return StageBackbone(module, transform, facts)


def _create(request: Request, name: str, weights: Any, size: int) -> tuple[nn.Module, Facts]:
    sized = {"image_size": size} if name.startswith("vit_") else {}
    if sized:
        check_size(size, int(name.rpartition("_")[2]), request.name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        module = models.get_model(name, weights=None, **sized)
    state, source = _state(request, weights)
    missing = None
    if state is not None:
        if sized and "encoder.pos_embedding" in state:
            state = interpolate_embeddings(size, module.patch_size, state)
        with watched() as loadings:
            module.load_state_dict({k: v for k, v in state.items() if not k.startswith(_CLASSIFIERS)})
        missing = check(
            loadings,
            source=source,
            strict=request.strict,
            matters=lambda key: not key.startswith(_CLASSIFIERS),
        )
    count, notes = random_parameters(module, missing, source)
    return module, Facts(
        name=f"torchvision:{request.model}",
        architecture=name,
        library=f"torchvision {minor('torchvision')}",
        weights_source=source,
        alias=request.alias,
        random_params=count,
        precision=request.precision,
        notes=notes,
    )


class ViTBackbone(Backbone):
    """torchvision's vision transformer; every block is a layer."""

    num_prefix_tokens = 1
    has_cls = True
    default_pool = "cls"

    def __init__(
        self, module: VisionTransformer, transform: ImageTransform, facts: Facts, *, norm: bool
    ) -> None:
        module.heads = nn.Identity()
        self.num_layers = len(module.encoder.layers)
        self.patch_size = module.patch_size
        self._norm = norm
        super().__init__(module, transform, facts.plus(norm=norm))

    def read(self, images: Tensor, layers: Sequence[int]) -> dict[int, Layer]:
        """The wanted blocks of one forward pass; blocks after the last one wanted are not run."""
        model: Any = self.module
        tokens = model._process_input(images)
        tokens = torch.cat([model.class_token.expand(len(tokens), -1, -1), tokens], 1)
        tokens = tokens + model.encoder.pos_embedding
        grid = (images.shape[2] // model.patch_size, images.shape[3] // model.patch_size)
        found = {}
        for index, block in enumerate(model.encoder.layers[: layers[-1] + 1]):
            tokens = block(tokens)
            if index in layers:
                kept = model.encoder.ln(tokens) if self._norm else tokens
                found[index] = Layer(kept[:, :1], kept[:, 1:], grid)
        return found


class StageBackbone(Backbone):
    """A model whose features are a sequence of modules; its stages are layers."""

    def __init__(self, module: Any, transform: ImageTransform, facts: Facts) -> None:
        self._steps = _steps(module, facts.name)
        self._channels_last = isinstance(module, models.SwinTransformer)
        self._ends = self._stage_ends(transform)
        self.num_layers = len(self._ends)
        super().__init__(module.to(memory_format=torch.channels_last), transform, facts)

    def read(self, images: Tensor, layers: Sequence[int]) -> dict[int, Layer]:
        """The wanted stages of one forward pass; what comes after the last one wanted is not run."""
        wanted = {self._ends[layer]: layer for layer in layers}
        found, x = {}, images
        for index, step in enumerate(self._steps[: max(wanted) + 1]):
            x = step(x)
            if index in wanted:
                found[wanted[index]] = Layer.of_map(x.permute(0, 3, 1, 2) if self._channels_last else x)
        return found

    @torch.inference_mode()
    def _stage_ends(self, transform: ImageTransform) -> list[int]:
        """The last step at each stride from 4 on."""
        x = transform.normalise(transform.place(transforms.grey_picture())[None])
        full, ends = x.shape[2], {}
        for index, step in enumerate(self._steps):
            x = step.eval()(x) if isinstance(step, nn.Module) else step(x)
            height = x.shape[1] if self._channels_last else x.shape[2]
            if full / height > _STRIDE - 1:
                ends[height] = index
        return list(ends.values())


def _steps(module: Any, name: str) -> list[Callable[[Tensor], Tensor]]:
    """All that runs before the pooling, in order."""
    trunk = next((parts for parts in _TRUNKS if all(hasattr(module, part) for part in parts)), None)
    if trunk is None or isinstance(module, models.Inception3 | models.GoogLeNet):
        raise InputError(
            f"{name} is built in a way we cannot read by layers; timm has most models too: timm:MODEL"
        )
    steps: list[Callable[[Tensor], Tensor]] = []
    for part in trunk:
        child = getattr(module, part)
        steps += list(child) if isinstance(child, nn.Sequential | nn.ModuleList) else [child]
    if isinstance(module, models.DenseNet):
        steps.append(relu)
    if isinstance(module, models.SwinTransformer):
        steps.append(module.norm)
    return steps


def _weights(name: str, which: str) -> Any:
    """The entry of torchvision's table of weights; None where there are none."""
    known = models.list_models(module=models)
    if name not in known:
        raise unknown(name, known, f'torchvision has no classification model "{name}"')
    table = models.get_model_weights(name)
    if which and which not in table.__members__:
        raise unknown(which, list(table.__members__), f'{name} has no weights "{which}"')
    return table[which or "DEFAULT"] if len(table) else None


def _preset(weights: Any) -> dict[str, Any]:
    """Size, mean, std and interpolation that the weights were made for."""
    if weights is None:
        mean, std = transforms.IMAGENET_MEAN, transforms.IMAGENET_STD
        return {"size": 224, "mean": mean, "std": std, "interpolation": "bilinear"}
    preset = weights.transforms()
    return {
        "size": preset.crop_size[0],
        "mean": tuple(preset.mean),
        "std": tuple(preset.std),
        "interpolation": preset.interpolation.value,
    }


def _state(request: Request, weights: Any) -> tuple[State | None, str]:
    if request.checkpoint is not None:
        return read_checkpoint(request.checkpoint), f"checkpoint {Path(request.checkpoint).name}"
    if not request.pretrained:
        return None, f"random seed {request.seed}"
    if weights is None or request.revision is not None:
        raise InputError(
            f"torchvision has no such weights of {request.model}; leave revision= out, or give a checkpoint"
        )
    with fetching(request.name):
        return weights.get_state_dict(progress=False, check_hash=True), f"hub {weights.url}"
