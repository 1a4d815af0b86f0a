"""Every head beside a PyTorch twin, written as its paper draws it and given the same weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import gelu, interpolate

from probes.heads import make_head

WIDTH, CHANNELS = 24, 5


def to(maps, size):
    return interpolate(maps, size=tuple(size), mode="bilinear", align_corners=False)


def norm(kind, width):
    return nn.GroupNorm(width // 8, width) if kind == "group" else LayerNorm(width)


class LayerNorm(nn.LayerNorm):
    def forward(self, maps):
        return super().forward(maps.movedim(1, -1)).movedim(-1, 1)


class Linear(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.out = nn.Conv2d(dims[0], CHANNELS, 1)

    def forward(self, maps, cls):
        return self.out(maps[0])


class ConvBlock(nn.Module):
    def __init__(self, dims, norm_kind):
        super().__init__()
        self.conv_0 = nn.Conv2d(dims[0], WIDTH, 3, padding=1, bias=False)
        self.norm_0 = norm(norm_kind, WIDTH)
        self.conv_1 = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.norm_1 = norm(norm_kind, WIDTH)
        self.out = nn.Conv2d(WIDTH, CHANNELS, 1)

    def forward(self, maps, cls):
        x = self.norm_0(self.conv_0(maps[0])).relu()
        return self.out(self.norm_1(self.conv_1(x)).relu())


class FPN(nn.Module):
    def __init__(self, dims, norm_kind):
        super().__init__()
        for place, d in enumerate(dims):
            self.add_module(f"lateral_{place}", nn.Conv2d(d, WIDTH, 1))
            self.add_module(f"smooth_{place}", nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False))
            self.add_module(f"norm_{place}", norm(norm_kind, WIDTH))
        self.out = nn.Conv2d(WIDTH, CHANNELS, 1)

    def forward(self, maps, cls):
        parts = dict(self.named_children())
        levels = [parts[f"lateral_{place}"](layer) for place, layer in enumerate(maps)]
        for place in range(len(maps) - 2, -1, -1):
            levels[place] = levels[place] + to(levels[place + 1], levels[place].shape[2:])
        smooth = [parts[f"norm_{k}"](parts[f"smooth_{k}"](level)).relu() for k, level in enumerate(levels)]
        return self.out(sum(to(level, smooth[0].shape[2:]) for level in smooth))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_0 = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.conv_1 = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x):
        return x + self.conv_1(self.conv_0(x.relu()).relu())


class Fuse(nn.Module):
    def __init__(self, deepest):
        super().__init__()
        if not deepest:
            self.skip = Residual()
        self.refine = Residual()
        self.out = nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, level, below, size):
        path = level if below is None else below + self.skip(level)
        return self.out(to(self.refine(path), size))  # as published: upsampled, then 1×1


class DPT(nn.Module):
    def __init__(self, dims, scales, readout):
        super().__init__()
        self.scales = scales
        for place, (d, scale) in enumerate(zip(dims, scales, strict=True)):
            if readout:
                self.add_module(f"readout_{place}", nn.ModuleDict({"project": nn.Linear(2 * d, d)}))
            reassemble = {
                "project": nn.Conv2d(d, WIDTH, 1),
                "smooth": nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False),
            }
            if scale > 1:
                reassemble["resize"] = nn.ConvTranspose2d(WIDTH, WIDTH, scale, stride=scale)
            elif scale < 1:
                reassemble["resize"] = nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1)
            self.add_module(f"reassemble_{place}", nn.ModuleDict(reassemble))
            self.add_module(f"fuse_{place}", Fuse(deepest=place == len(dims) - 1))
        self.head = nn.Conv2d(WIDTH, WIDTH // 2, 3, padding=1)
        self.out = nn.Conv2d(WIDTH // 2, CHANNELS, 1)

    def forward(self, maps, cls):
        parts = dict(self.named_children())
        levels = []
        for place, x in enumerate(maps):
            if cls is not None:
                tokens = x.flatten(2).transpose(1, 2)
                both = torch.cat([tokens, cls[place][:, None].expand_as(tokens)], -1)
                tokens = gelu(parts[f"readout_{place}"]["project"](both))
                x = tokens.transpose(1, 2).reshape(x.shape)
            part = parts[f"reassemble_{place}"]
            x = part["project"](x)
            if "resize" in part:
                x = part["resize"](x)
            levels.append(part["smooth"](x))
        path = None
        for place in range(len(maps) - 1, -1, -1):
            size = levels[place - 1].shape[2:] if place else [2 * side for side in levels[0].shape[2:]]
            path = parts[f"fuse_{place}"](levels[place], path, size)
        return self.out(self.head(path).relu())


def copied(params, twin):
    """The twin with our weights: it has a part for each of ours, of the same name."""
    state = twin.state_dict()
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    assert len(leaves) == len(state)
    for path, leaf in leaves:
        *parts, last = (key.key for key in path)
        name = ".".join([*parts, {"kernel": "weight", "scale": "weight"}.get(last, last)])
        shape, value = state[name].shape, np.asarray(leaf)
        if last == "kernel" and value.ndim == 4:
            value = value.transpose(3, 2, 0, 1)
        elif last == "kernel" and len(shape) == 4 and shape[-1] > 1:  # transposed: in, out, rows, columns
            value = value.reshape(shape[0], *shape[2:], shape[1]).transpose(0, 3, 1, 2)
        elif last == "kernel":
            value = value.T.reshape(shape)
        assert value.shape == shape, name
        state[name] = torch.from_numpy(value.copy())
    twin.load_state_dict(state)
    return twin


def drawn(params, seed):
    """Other weights of the same shapes, so that no bias is 0 and no scale 1."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(
            rng.standard_normal(leaf.shape) / np.sqrt(max(1, np.prod(leaf.shape[:-1]))), jnp.float32
        ),
        params,
    )


VIT = ((12, (6, 9)),) * 4
STAGES = ((6, (28, 28)), (10, (14, 14)), (16, (7, 7)))
ODD = ((4, (37, 50)), (9, (19, 25)), (7, (10, 13)), (5, (5, 7)))
CASES = {
    "linear": ("linear", ((12, (37, 50)),), {}, Linear, ()),
    "conv_block, group": ("conv_block", ((12, (7, 5)),), {"norm": "group"}, ConvBlock, ("group",)),
    "conv_block, layer": ("conv_block", ((12, (7, 5)),), {"norm": "layer"}, ConvBlock, ("layer",)),
    "fpn of one": ("fpn", VIT[:1], {}, FPN, ("group",)),
    "fpn of a ViT": ("fpn", VIT, {}, FPN, ("group",)),
    "fpn of stages": ("fpn", STAGES, {"norm": "layer"}, FPN, ("layer",)),
    "fpn of odd stages": ("fpn", ODD, {}, FPN, ("group",)),
    "dpt of two": ("dpt", VIT[:2], {}, DPT, ((1, 0.5), False)),
    "dpt of three": ("dpt", VIT[:3], {}, DPT, ((2, 1, 0.5), False)),
    "dpt of a ViT": ("dpt", VIT, {}, DPT, ((4, 2, 1, 0.5), False)),
    "dpt with CLS": ("dpt", VIT, {"readout": True}, DPT, ((4, 2, 1, 0.5), True)),
    "dpt of odd grids": ("dpt", ((8, (7, 7)),) * 4, {}, DPT, ((4, 2, 1, 0.5), False)),
    "dpt of stages": ("dpt", STAGES, {}, DPT, ((1, 1, 1), False)),
    "dpt of odd stages": ("dpt", ODD, {"readout": True}, DPT, ((1, 1, 1, 1), True)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_head_and_its_twin_draw_the_same_map(case):
    name, shapes, settings, kind, twin_settings = CASES[case]
    dims = [d for d, _ in shapes]
    rng = np.random.default_rng(3)
    maps = tuple(rng.standard_normal((2, *grid, d)).astype(np.float32) for d, grid in shapes)
    cls = tuple(rng.standard_normal((2, d)).astype(np.float32) for d in dims)
    if not settings.get("readout"):
        cls = None
    if name != "linear":
        settings = {**settings, "hidden_dim": WIDTH}
    head = make_head(name, channels=CHANNELS, layers=len(shapes), **settings)
    ours = jax.tree.map(jnp.asarray, (maps, cls))
    params = drawn(jax.eval_shape(head.init, jax.random.key(0), *ours)["params"], 1)

    twin = copied(params, kind(dims, *twin_settings))
    with torch.inference_mode():
        expected = twin(
            [torch.from_numpy(layer).movedim(-1, 1) for layer in maps],
            cls and [torch.from_numpy(token) for token in cls],
        )
    expected = expected.movedim(1, -1).numpy()
    found = np.asarray(jax.jit(head.apply)({"params": params}, *ours))
    assert found.shape == expected.shape
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
