"""What is computed, what is not, and what never reaches the store."""

import re

import numpy as np
import pytest
import torch
from PIL import Image

from extract import open_dataset
from extract.errors import InputError
from extract.machine import rate_key
from extract.store import StoreError


def test_features_are_those_worked_out_by_hand(tiny_backbone, photos, place, count_passes):
    folder, colours = photos(7)
    backbone = tiny_backbone()
    passes = count_passes(backbone)
    taps = ["cls", "cls@0", "mean", "patches@0", "patches"]
    done = place.extract(backbone, folder, taps, dtype="float32", batch_size=3)
    assert sorted(passes.batches) == [1, 3, 3]  # all taps from one pass
    assert done.computed == 7
    patches = np.empty((7, 4, 4, 5), np.float32)
    patches[..., :3] = colours / np.float32(255)
    patches[..., 3], patches[..., 4] = np.mgrid[:4, :4]
    cls = np.concatenate([patches[..., :3].mean((1, 2)), np.full((7, 2), -1)], 1)
    expected = {
        "cls@1": cls,
        "cls@0": cls / 2,
        "mean@1": patches.mean((1, 2)),
        "patches@0": patches / 2,
        "patches@1": patches,
    }
    assert [str(tap) for tap in done.plan.identities] == list(expected)
    for tap, values in expected.items():
        np.testing.assert_allclose(place.rows(done.plan, tap), values, atol=1e-6, err_msg=tap)


def test_the_default_type_is_float16(tiny_backbone, photos, place):
    folder, colours = photos(2)
    done = place.extract(tiny_backbone(), folder, ["cls"])
    assert place.rows(done.plan).dtype == np.float16
    np.testing.assert_allclose(place.rows(done.plan)[:, :3], colours.mean((1, 2)) / 255, atol=5e-4)


def test_only_missing_rows_are_computed(tiny_backbone, photos, place, count_passes):
    folder, _ = photos(9)
    images, backbone = open_dataset(folder)["all"], tiny_backbone()
    passes = count_passes(backbone)

    def run(chosen, taps):
        before = passes.images
        done = place.extract(backbone, chosen, taps, batch_size=4)
        assert passes.images - before == done.computed == done.plan.passes
        return done.computed

    assert run(images.subset(range(6)), ["cls"]) == 6
    assert run(images.subset(range(6)), ["cls"]) == 0
    assert run(images.subset([3, 8, 4]), ["cls"]) == 1  # another split, which shares two images
    assert run(images, ["cls"]) == 2
    assert run(images, ["cls", "mean"]) == 9  # a tap more, none of whose rows is there
    assert run(images, ["mean", "cls"]) == 0
    again = place.extract(tiny_backbone(), images, ["mean"])
    assert again.computed == 0
    assert place.store.identities()[0].rows == place.store.identities()[1].rows == 9


def test_a_picture_that_stands_twice_is_extracted_once(tiny_backbone, photos, place, count_passes):
    folder, colours = photos(3)
    (folder / "copy.png").write_bytes((folder / "001.png").read_bytes())
    backbone = tiny_backbone()
    passes = count_passes(backbone)
    done = place.extract(backbone, folder, ["cls"], batch_size=2)
    assert passes.images == done.computed == 3
    found = place.rows(done.plan)
    assert len(found) == 4
    np.testing.assert_array_equal(found[3], found[1])
    np.testing.assert_allclose(found[[0, 1, 2], :3], colours.mean((1, 2)) / 255, atol=5e-4)


@pytest.mark.parametrize(("batch_size", "workers"), [(1, 1), (3, 2), (64, 4), (None, None)])
def test_batch_size_and_workers_change_nothing(tiny_backbone, photos, place, elsewhere, batch_size, workers):
    folder, _ = photos(10)
    done = place.extract(tiny_backbone(), folder, ["patches"], batch_size=batch_size, workers=workers)
    reference = elsewhere.extract(tiny_backbone(), folder, ["patches"], batch_size=5, workers=1)
    np.testing.assert_array_equal(place.rows(done.plan), elsewhere.rows(reference.plan))


@pytest.mark.parametrize(("n", "of"), [(21, 2), (10, 3), (1, 4)])
def test_shards_are_all_rows_once(tiny_backbone, photos, place, n, of, count_passes):
    folder, colours = photos(n)
    backbone = tiny_backbone()
    passes = count_passes(backbone)
    parts = [place.extract(backbone, folder, ["cls"], shard=(i, of)) for i in range(of)]
    assert sum(part.computed for part in parts) == n
    assert max(part.computed for part in parts) - min(part.computed for part in parts) <= 1
    (kept,) = place.store.identities()
    assert kept.rows == n
    np.testing.assert_allclose(place.rows(parts[0].plan)[:, :3], colours.mean((1, 2)) / 255, atol=5e-4)
    passes.batches.clear()
    assert place.extract(backbone, folder, ["cls"]).computed == passes.images == 0


def test_a_duplicate_in_another_shard_is_left_to_the_first(tiny_backbone, photos, place):
    folder, _ = photos(4)
    (folder / "zzz.png").write_bytes((folder / "000.png").read_bytes())
    shards = [place.extract(tiny_backbone(), folder, ["cls"], shard=(i, 2)) for i in (1, 0)]
    assert [done.computed for done in shards] == [2, 2]
    assert len(place.rows(shards[0].plan)) == 5


def test_arrays_and_datasets_of_other_libraries(tiny_backbone, photos, place):
    folder, colours = photos(5)
    arrays = colours.repeat(8, 1).repeat(8, 2)

    class Listed:
        def __len__(self):
            return 5

        def __getitem__(self, i):
            return Image.fromarray(arrays[i]), i % 2

    expected = place.extract(tiny_backbone(), folder, ["cls"])
    for data in (arrays, [Image.fromarray(each) for each in arrays], Listed(), (arrays, [0, 1, 0, 1, 0])):
        done = place.extract(tiny_backbone(), data, ["cls"])
        np.testing.assert_array_equal(place.rows(done.plan), place.rows(expected.plan))


def test_progress_counts_every_image_once(tiny_backbone, photos, place):
    folder, _ = photos(7)
    (folder / "003.png").write_bytes(b"no image")
    told = []
    place.extract(tiny_backbone(), folder, ["cls"], on_bad="skip", batch_size=2, progress=told.append)
    assert sum(told) == 7
    assert len(told) == 4


def test_a_nan_row_stops_the_run(photos, place, mean_colour):
    folder, _ = photos(5)
    Image.new("RGB", (32, 32)).save(folder / "dark.png")
    backbone = mean_colour(lambda module, images: module(images) / module(images))
    with pytest.raises(InputError, match=r"^dark\.png, tap mean@0: .*NaN"):
        place.extract(backbone, folder, ["default"], batch_size=2, workers=1)
    plan = place.plan(backbone, folder)
    there = place.present(plan)
    assert there[:4].all()
    assert not there[5]
    assert (place.rows(plan, only=there) == 1).all()


def test_an_overflow_names_image_tap_and_way_out(photos, place, mean_colour):
    folder, _ = photos(5)
    Image.new("RGB", (32, 32), (255, 255, 255)).save(folder / "bright.png")
    backbone = mean_colour(lambda module, images: module(images) ** 20 * 1e6)
    with pytest.raises(InputError, match=r"^bright\.png, tap mean@0: .*1e\+06.*float16.*--dtype float32"):
        place.extract(backbone, folder, ["default"], batch_size=2)
    assert not place.present(place.plan(backbone, folder))[5]
    done = place.extract(backbone, folder, ["default"], dtype="float32")
    np.testing.assert_allclose(place.rows(done.plan)[5], 1e6, rtol=1e-6)


def test_a_store_that_cannot_be_written(tiny_backbone, photos, place, tmp_path):
    folder, _ = photos(3)
    backbone = tiny_backbone()
    (which,) = place.plan(backbone, folder).identities.values()
    (tmp_path / "store").mkdir(exist_ok=True)
    (tmp_path / "store" / which.digest).write_text("in the way")
    with pytest.raises(StoreError, match="choose another place with --store"):
        place.extract(backbone, folder, ["cls"])


def test_a_disk_that_fills_up(tiny_backbone, photos, place, monkeypatch):
    def fail(*args, **options):
        raise StoreError("no space is left; choose another place with --store")

    folder, _ = photos(6)
    backbone = tiny_backbone()
    with monkeypatch.context() as patch:
        patch.setattr("extract.store.writer.write_part", fail)
        with pytest.raises(StoreError, match="no space is left"):
            place.extract(backbone, folder, ["cls", "patches"], batch_size=2)
    assert not place.present(place.plan(backbone, folder)).any()
    assert place.extract(backbone, folder, ["cls", "patches"]).computed == 6


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"on_bad": "ignore"}, "refuse or skip"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"workers": -1}, "workers is -1"),
        ({"max_pixels": 0}, "max_pixels is 0"),
        ({"shard": (3, 3)}, "no shard 3 of 3"),
        ({"shard": (-1, 3)}, "no shard -1 of 3"),
        ({"ids": np.zeros((2, 16), np.uint8)}, "2 ids for 3 images"),
        ({"dtype": "float64"}, "float16, bfloat16, float32"),
        ({"device": "gpu"}, 'no device "gpu"'),
    ],
)
def test_settings_that_are_refused(tiny_backbone, photos, place, options, says):
    folder, _ = photos(3)
    with pytest.raises(InputError, match=re.escape(says)):
        place.extract(tiny_backbone(), folder, ["cls"], **options)
    assert place.store.identities() == []


def test_a_device_that_is_too_small(tiny_backbone, photos, place, monkeypatch):
    folder, _ = photos(3)
    backbone = tiny_backbone()

    def fail(batch, taps):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(backbone, "features", fail)
    with pytest.raises(InputError, match=r"no room for 3 images at once; take fewer with --batch-size"):
        place.extract(backbone, folder, ["cls"], batch_size=3)


def test_the_rate_is_remembered_once_it_means_something(tiny_backbone, place):
    backbone = tiny_backbone()
    key = rate_key(backbone.spec, "cpu")
    arrays = np.random.default_rng(0).integers(0, 256, (70, 32, 32, 3), np.uint8)
    place.extract(backbone, arrays[:5], ["cls"], device="cpu")
    assert place.memo.recall("rate", key) is None
    place.extract(backbone, arrays, ["cls"], device="cpu")
    assert place.memo.recall("rate", key)["images_per_second"] > 0
