"""`timm:ARCHITECTURE[.TAG]`: token models by their blocks, all others by their maps at strides 4, 8, 16, 32.

timm's own code builds the model, downloads or takes a state dict, maps upstream key names and resamples
position embeddings; a local checkpoint goes the way a download goes.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import timm
import torch
from torch import Tensor, nn

from extract import transforms
from extract.backbones.base import Backbone, Facts, Layer
from extract.backbones.checkpoints import check, fetching, quiet, random_parameters, read_checkpoint, watched
from extract.backbones.refusals import check_size, no_norm, no_projection, unknown
from extract.errors import InputError
from extract.requests import Request, minor
from extract.transforms import ImageTransform

_STRIDE = 4  # of a CNN's first stage; what comes before is its stem


def load(request: Request) -> Backbone:
    """The backbone that `request` names, with its own weights, a checkpoint's, or random ones."""
    no_projection(request)
    config = _config(request.model)
    size = _image_size(request, config)
    module, facts = _create(request, config, size)
    transform, overrides = transforms.for_request(
        request, size=size, mean=config.mean, std=config.std, interpolation=config.interpolation
    )
    try:
        backbone = wrap(module, transform, facts.plus(*overrides), norm=request.norm)
    except (AssertionError, RuntimeError) as error:
        raise InputError(
            f"{request.name} does not run on images of {size} pixels ({error}); its own size is native"
        ) from error
    check_size(size, backbone.patch_size, request.name)
    return backbone


def patch_in_name(model: str) -> int | None:
    """14 of "vit_small_patch14_dinov2": known before anything is built or downloaded."""
    found = re.search(r"_patch(\d+)", model)
    return int(found[1]) if found else None


def wrap(module: nn.Module, transform: ImageTransform, facts: Facts, *, norm: bool = True) -> Backbone:
    """A timm model as a backbone: of tokens or of maps, whichever it is."""
    forward = getattr(module, "forward_intermediates", None)
    if forward is None:
        raise InputError(_unreadable(facts))
    tokens = "return_prefix_tokens" in inspect.signature(forward).parameters
    return (TokenBackbone if tokens else MapBackbone)(module, transform, facts, norm=norm)


class TokenBackbone(Backbone):
    """A timm model of tokens: every block is a layer, seen through the final norm unless `norm` is False."""

    def __init__(self, module: Any, transform: ImageTransform, facts: Facts, *, norm: bool = True) -> None:
        self.num_layers = len(module.feature_info)
        self.num_prefix_tokens = module.num_prefix_tokens
        self.has_cls = self.num_prefix_tokens > 0 and getattr(module, "cls_token", None) is not None
        self.default_pool = "cls" if self.has_cls and module.global_pool == "token" else "mean"
        self.patch_size = module.feature_info[-1]["reduction"]
        self._norm = norm
        if norm and isinstance(module.norm, nn.Identity):
            facts = facts.plus(
                "the model's final norm comes after its pooling, so tokens are kept without it"
            )
        super().__init__(module, transform, facts.plus(norm=norm))

    def read(self, images: Tensor, layers: Sequence[int]) -> dict[int, Layer]:
        """Every wanted block of one forward pass; blocks after the last one wanted are not run."""
        prefixed: dict[str, Any] = {"return_prefix_tokens": True} if self.num_prefix_tokens else {}
        found = self.module.forward_intermediates(  # type: ignore[operator]
            images,
            indices=list(layers),
            norm=self._norm,
            stop_early=True,
            intermediates_only=True,
            **prefixed,
        )
        pairs = found if prefixed else [(tokens, None) for tokens in found]
        return {
            layer: Layer.of_map(tokens, prefix) for layer, (tokens, prefix) in zip(layers, pairs, strict=True)
        }


class MapBackbone(Backbone):
    """A timm model of maps: its stages are layers, and the last one is all that `forward_features` does."""

    def __init__(self, module: Any, transform: ImageTransform, facts: Facts, *, norm: bool = True) -> None:
        no_norm(norm, facts.name)
        info = module.feature_info
        entries = info if isinstance(info, list) else info.info
        self._stages = [i for i, entry in enumerate(entries) if entry["reduction"] >= _STRIDE]
        self.num_layers = len(self._stages)
        self._channels_last = getattr(module, "output_fmt", "NCHW") == "NHWC"
        self._facts = facts
        super().__init__(module.to(memory_format=torch.channels_last), transform, facts)

    def read(self, images: Tensor, layers: Sequence[int]) -> dict[int, Layer]:
        """The wanted stages of one forward pass; stages after the last one wanted are not run."""
        whole = layers[-1] == self.num_layers - 1
        found = self.module.forward_intermediates(  # type: ignore[operator]
            images,
            indices=[self._stages[layer] for layer in layers],
            stop_early=not whole,
            intermediates_only=not whole,
        )
        maps = found[1] if whole else found
        read = {layer: Layer.of_map(value) for layer, value in zip(layers, maps, strict=True)}
        if whole:
            read[layers[-1]] = self._full(found[0], read[layers[-1]])
        return read

    def _full(self, features: Any, stage: Layer) -> Layer:
        """`forward_features` as a layer: EfficientNets, for one, go on after their last stage."""
        if not isinstance(features, Tensor) or stage.grid is None:
            raise InputError(_unreadable(self._facts))
        if features.ndim == 4:
            return Layer.of_map(features.permute(0, 3, 1, 2) if self._channels_last else features)
        count = stage.patches.shape[1]  # tokens after all, with or without one that joined late
        return Layer(features[:, :0], features[:, -count:], stage.grid)


def _unreadable(facts: Facts) -> str:
    return (
        f"timm gives no plain access to the layers of {facts.architecture}; wrap it yourself with "
        "CustomBackbone(module, preprocess, feature_fn=…)"
    )


def _create(request: Request, config: Any, size: int) -> tuple[nn.Module, Facts]:
    """timm's model without its classifier, and what is known of it."""
    overlay, source = _weights(request, config)
    arguments, facts = _arguments(request, config, size)
    downloads = request.pretrained and request.checkpoint is None
    with (
        torch.random.fork_rng(devices=[]),
        watched() as loadings,
        quiet(),
        redirect_stdout(sys.stderr),  # one of timm's key maps prints
        fetching(request.name) if downloads else nullcontext(),
    ):
        torch.manual_seed(request.seed)
        module: Any = timm.create_model(
            request.model,
            pretrained=overlay is not None,
            pretrained_cfg_overlay=overlay,
            num_classes=0,
            **arguments,
        )
    module.pretrained_cfg.pop("state_dict", None)  # timm would keep the checkpoint alive beside the model
    heads = _classifiers(config)
    missing = check(
        loadings, source=source, strict=request.strict, matters=lambda key: not key.startswith(heads)
    )
    count, notes = random_parameters(module, None if overlay is None else missing, source)
    return module, replace(facts.plus(*notes), weights_source=source, random_params=count)


def _config(model: str) -> Any:
    """timm's own description of `ARCHITECTURE[.TAG]`."""
    architecture, _, tag = model.partition(".")
    if not timm.is_model(architecture):
        raise unknown(architecture, timm.list_models(), f'timm {minor("timm")} has no model "{architecture}"')
    tags = [name.partition(".")[2] for name in timm.list_pretrained(f"{architecture}.*")]
    if tag and tag not in tags:
        raise unknown(tag, tags, f'{architecture} has no weights "{tag}" in timm')
    config = timm.get_pretrained_cfg(model)
    if config is None or config.input_size[0] != 3:
        raise InputError(
            f"timm describes no three-channel input for {architecture}; wrap it in CustomBackbone"
        )
    return config


def _image_size(request: Request, config: Any) -> int:
    _, height, width = config.input_size
    if request.image_size == "native" and height != width:
        raise InputError(f"{request.name} was made for {height}×{width} pixels; give one --image-size")
    size = height if request.image_size == "native" else int(request.image_size)
    if config.fixed_input_size:
        check_size(size, patch_in_name(request.model), request.name)
    return size


def _weights(request: Request, config: Any) -> tuple[dict[str, Any] | None, str]:
    """What to lay over timm's description (None for random weights), and where the weights come from."""
    if request.checkpoint is not None:
        return {
            "state_dict": read_checkpoint(request.checkpoint)
        }, f"checkpoint {Path(request.checkpoint).name}"
    if not request.pretrained:
        return None, f"random seed {request.seed}"
    if not config.has_weights:
        raise InputError(
            f"timm has no weights for {request.model}; give a file with --checkpoint, or pretrained=False for "
            "random ones"
        )
    if request.revision is None:
        return {}, f"hub {config.hf_hub_id or config.url}"
    if not config.hf_hub_id:
        raise InputError(f"the weights of {request.name} are on no hub with revisions; leave revision= out")
    place = f"{config.hf_hub_id}@{request.revision}"
    return {"hf_hub_id": place}, f"hub {place}"


def _arguments(request: Request, config: Any, size: int) -> tuple[dict[str, Any], Facts]:
    """What `create_model` is told beside the name, and what that makes of the model."""
    arguments: dict[str, Any] = {"img_size": size} if config.fixed_input_size else {}
    facts = Facts(
        name=f"timm:{request.model}",
        architecture=request.model.partition(".")[0],
        library=f"timm {minor('timm')}",
        alias=request.alias,
        precision=request.precision,
    )
    if any("natively QuickGELU" in note for note in config.notes or ()):
        arguments["act_layer"] = "quick_gelu"
        facts = facts.plus(
            "trained with QuickGELU, so it is used in place of the architecture's GELU", quick_gelu=True
        )
    return arguments, facts


def _classifiers(config: Any) -> tuple[str, ...]:
    """How the keys of the classifier begin: its parameters are not read, so they may be there or not."""
    names = config.classifier or ()
    names = (names,) if isinstance(names, str) else names
    return tuple(f"{name.partition('.')[0]}." for name in names)
