"""Any `nn.Module` as a backbone, with a preprocess and a declared way of reading what it returns.

Two shapes explain themselves: (b, d) is a pooled vector and (b, d, h, w) a map.  All else is read as declared
(`num_prefix_tokens`, `has_cls_token`, `patch_size`, `feature_fn`) or refused, naming what would settle it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PIL import Image
from torch import Tensor, nn

from extract.backbones.base import Backbone, Facts, Layer
from extract.backbones.independence import refuse_batch_statistics, refuse_dependence
from extract.backbones.outputs import Declared, interpret
from extract.digests import module_token
from extract.errors import InputError
from extract.requests import minor
from extract.transforms import CallableTransform, Transform
from extract.wording import counted

FeatureFn = Callable[[nn.Module, Tensor], Any]
LayerFeatureFn = Callable[[nn.Module, Tensor, Sequence[int]], Sequence[Any]]


class CustomBackbone(Backbone):
    """`module` as a backbone; it is put into eval mode and its parameters are frozen.

    `preprocess` turns a PIL image into a (3, h, w) float tensor and is all that happens to an image; a
    `Transform` of ours does as well.  What it and the module do is told apart by their code; where that cannot
    be read, `preprocess_name` and `name` stand for it, and are then to be changed when the code changes.

    `feature_fn(module, images)` returns what to read in place of `module(images)`: a tensor of one of the
    shapes above, (b, n, d) tokens, or {"patches": tokens or map, "cls": (b, d)}.  `layer_feature_fn(module,
    images, layers)` returns one such answer for each of `layers`, out of `num_layers`.
    """

    def __init__(
        self,
        module: nn.Module,
        preprocess: Callable[[Image.Image], Tensor] | Transform | CallableTransform | None = None,
        *,
        name: str | None = None,
        patch_size: int | None = None,
        has_cls_token: bool | None = None,
        num_prefix_tokens: int | None = None,
        feature_fn: FeatureFn | None = None,
        layer_feature_fn: LayerFeatureFn | None = None,
        num_layers: int | None = None,
        preprocess_name: str | None = None,
        precision: str = "float32",
    ) -> None:
        if preprocess is None:
            raise InputError("a module of your own needs preprocess=, which turns a PIL image into its input")
        if (layer_feature_fn is None) != (num_layers is None):
            raise InputError("layer_feature_fn= and num_layers= go together; give both or neither")
        if has_cls_token and num_prefix_tokens == 0:
            raise InputError(
                "has_cls_token=True says there is a prefix token, num_prefix_tokens=0 that there is none"
            )
        self.patch_size = patch_size
        self.num_layers = num_layers or 1
        self.has_cls = bool(has_cls_token)
        self.default_pool = "cls" if self.has_cls else "mean"
        self.num_prefix_tokens = int(self.has_cls) if num_prefix_tokens is None else num_prefix_tokens
        declared = num_prefix_tokens is not None or has_cls_token is not None
        self._declared = Declared(
            prefix=self.num_prefix_tokens if declared else None,
            has_cls=self.has_cls,
            patch_size=patch_size,
            chosen=feature_fn is not None or layer_feature_fn is not None,
        )
        self._read, self._read_layers = feature_fn, layer_feature_fn
        code = module_token(module, feature_fn, layer_feature_fn) or (name and f"named {name}")
        if code is None:
            raise InputError(
                "the module, or the function that reads it, holds state that cannot be compared, so its features "
                "could be taken for another's; give it a name of its own with name="
            )
        facts = Facts(
            name=name or type(module).__name__,
            architecture=type(module).__qualname__,
            library=_library(module),
            precision=precision,
            options={"code": code},
        )
        if not isinstance(preprocess, Transform | CallableTransform):
            preprocess = CallableTransform.of(preprocess, name=preprocess_name)
        refuse_batch_statistics(module)
        super().__init__(module, preprocess, facts)
        refuse_dependence(self)

    def read(self, images: Tensor, layers: Sequence[int]) -> Mapping[int, Layer]:
        """One call of the module, or of the function given for it, read as declared."""
        size = (images.shape[2], images.shape[3])
        if self._read_layers is None:
            answer = self.module(images) if self._read is None else self._read(self.module, images)
            return {0: interpret(answer, size, self._declared)}
        answers = self._read_layers(self.module, images, list(layers))
        if len(answers) != len(layers):
            given, wanted = counted(len(answers), "answer"), counted(len(layers), "layer")
            raise InputError(f"layer_feature_fn gave {given} for {wanted}; it owes each one")
        read = (interpret(answer, size, self._declared) for answer in answers)
        return dict(zip(layers, read, strict=True))


def _library(module: nn.Module) -> str:
    """The package that the module's class comes from, with its minor version where it has one."""
    package = type(module).__module__.partition(".")[0]
    return f"{package} {minor(package) or ''}".strip()
