"""Pictures to extract from, and a place to extract to."""

import numpy as np
import pytest
import torch
from PIL import Image

from extract import CustomBackbone, Memo, Store, extract, open_dataset
from extract import plan as planning
from extract.transforms import Transform


class Place:
    """A store and a memo of a test's own."""

    def __init__(self, store, memo):
        self.store, self.memo = Store(store), Memo(memo)

    def extract(self, backbone, data, taps, **options):
        return extract(backbone, open_dataset(data)["all"], taps, store=self.store, memo=self.memo, **options)

    def plan(self, backbone, data):
        """What an extraction of the default tap would do."""
        ids = self.memo.row_ids(open_dataset(data)["all"].sources)
        return planning.make(backbone.spec, ["default"], ids, store=self.store)

    def present(self, plan):
        """(n,) which images have a row, of a plan for one tap."""
        (which,) = plan.identities.values()
        return self.store.present(which.digest, plan.ids)

    def rows(self, plan, tap=None, only=slice(None)):
        """The stored rows of the one tap, or of one of several, in the dataset's order."""
        found = {str(each): which for each, which in plan.identities.items()}
        which = found[tap] if tap else next(iter(found.values()))
        return self.store.view(which.digest, plan.ids[only]).read()


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "store", tmp_path / "memo.sqlite")


@pytest.fixture
def elsewhere(tmp_path):
    """Another place, to compare with."""
    return Place(tmp_path / "other store", tmp_path / "other memo.sqlite")


@pytest.fixture
def photos(tmp_path):
    """`photos(n)`: a folder of n PNGs, named in order, and the (n, 4, 4, 3) colours of their 8×8 patches."""

    def make(n, ending="png"):
        folder = tmp_path / "photos"
        folder.mkdir()
        colours = np.random.default_rng(n).integers(1, 256, (n, 4, 4, 3), np.uint8)
        for number, blocks in enumerate(colours):
            Image.fromarray(blocks.repeat(8, 0).repeat(8, 1)).save(folder / f"{number:03}.{ending}")
        return folder, colours

    return make


class Passes:
    """What went through a backbone's module: images a batch, and the threads each batch might take."""

    def __init__(self, backbone):
        self.batches, self.threads = [], set()
        backbone.module.register_forward_hook(self)

    def __call__(self, module, inputs, output):
        self.batches.append(len(inputs[0]))
        self.threads.add(torch.get_num_threads())

    @property
    def images(self):
        return sum(self.batches)


@pytest.fixture(scope="session")
def count_passes():
    return Passes


class ChannelMeans(torch.nn.Module):
    def forward(self, images):
        return images.mean((2, 3))


@pytest.fixture(scope="session")
def mean_colour():
    """`mean_colour(feature_fn=None, **transform)`: (3,) an image, or what `feature_fn` makes of it."""

    def make(feature_fn=None, **transform):
        plain = {"size": 32, "interpolation": "bilinear", "mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
        return CustomBackbone(
            ChannelMeans(), Transform(**{**plain, **transform}), name="means", feature_fn=feature_fn
        )

    return make


@pytest.fixture(scope="session")
def numbered():
    """`numbered(n)`: (n, 16) ids that differ."""
    return lambda n: np.arange(4 * n, dtype="<u4").view(np.uint8).reshape(n, 16)
