"""Correspondence on the command line: views made of images, and pairs of their own, whose truth is known exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import visbench
from extract.datasets.relations import Keypoints
from visbench.errors import UsageError
from visbench.record import Record

HEIGHT, WIDTH, SIDE, PATCH = 48, 64, 48, 4


def mosaic(rng: np.random.Generator, width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    """A picture no two patches of which are alike."""
    cells = rng.integers(0, 256, (height // PATCH, width // PATCH, 3), np.uint8)
    return cells.repeat(PATCH, axis=0).repeat(PATCH, axis=1)


@pytest.fixture(scope="module")
def fine() -> Iterator[str]:
    """A backbone whose tokens are the mean colours of 4 × 4 pixels, wherever they lie."""
    import torch

    from extract.backbones import CustomBackbone
    from extract.backbones.registry import REGISTERED, register_backbone
    from extract.transforms import Transform

    class Colours(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.avg_pool2d(images, PATCH) * self.scale

    half = (0.5, 0.5, 0.5)
    transform = Transform(size=SIDE, interpolation="bilinear", mean=half, std=half)
    register_backbone("colours")(lambda **options: CustomBackbone(Colours(), transform, name="colours"))
    yield "colours"
    REGISTERED.pop("colours", None)


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    root: Path = tmp_path_factory.mktemp("views") / "photos"
    root.mkdir()
    rng = np.random.default_rng(0)
    for number in range(8):
        Image.fromarray(mosaic(rng)).save(root / f"{number}.png")
    return root


def table(root: Path, second, relation: str, cell: str, count: int = 1) -> Path:
    """pairs.csv of pictures and what `second` makes of each."""
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    rows = [f"image_2,{relation},image_1"]
    for number in range(count):
        picture = mosaic(rng)
        Image.fromarray(picture).save(root / f"{number}a.png")
        Image.fromarray(np.ascontiguousarray(second(picture))).save(root / f"{number}b.png")
        rows.append(f"{number}b.png,{cell},{number}a.png")
    (root / "pairs.csv").write_text("\n".join(rows) + "\n")
    return root / "pairs.csv"


def records(done) -> list[Record]:
    return [Record.from_json(each) for each in done.stdout.splitlines()]


def test_a_view_that_is_not_warped_is_found_again_everywhere(line, photos):
    record = line.record("run", "correspondence", photos, "--max-warp", "0")
    assert record.headline == "recall@5px"
    assert record.metrics["recall@1px"] == record.metrics["recall@0.5p"] == 1
    assert record.metrics["mean_error_px"] == pytest.approx(0, abs=1e-4)
    assert record.context["ceiling_recall@1px"] == 1
    assert record.metrics["num_matches"] == (SIDE // PATCH) ** 2
    assert record.n["recall@5px"] == 8


def test_each_warp_is_a_record_and_no_view_is_extracted_twice(line, photos):
    words = ("run", "correspondence", photos, "--max-warp", "0,0.1,0.2", "--json")
    first = line(*words)
    scores = [each.metrics["recall@5px"] for each in records(first)]
    assert scores[0] == 1 > max(scores[1:])
    assert len({Record.from_json(each).task_params["max_warp"] for each in first.stdout.splitlines()}) == 3
    again = line(*words)
    assert "all 32 images cached" in again.stderr  # 8 photos and three views of each
    assert [each.metrics for each in records(again)] == [each.metrics for each in records(first)]


def test_another_seed_makes_other_views(line, photos):
    one, other = (
        line.record("run", "correspondence", photos, "--seed", seed).metrics["mean_error_px"]
        for seed in (0, 1)
    )
    assert one != other


def test_units_choose_what_a_board_sorts_by(line, photos):
    record = line.record("run", "correspondence", photos, "--units", "patch")
    assert record.headline == "recall@1p"
    board = line("run", "correspondence", photos, "--units", "patch").stdout
    heading = next(line for line in board.splitlines() if line.startswith(" rank "))
    assert heading.split()[2] == "recall@1p"
    assert board.startswith(" read this first")


def test_a_view_beside_another_image_scores_by_chance(line, photos):
    done = line("run", "correspondence", photos, "--control", "shuffle", "--ratio", "1", "--json")
    own, shuffled = records(done)
    assert shuffled.control == "shuffled labels"
    assert shuffled.metrics["recall@5px"] < 0.1 < own.metrics["recall@5px"]


def test_a_mirrored_pair_is_found_through_its_homography(line, tmp_path):
    data = table(tmp_path, lambda picture: picture[:, ::-1], "homography", f"-1 0 {WIDTH - 1} 0 1 0 0 0 1")
    record = line.record("run", "correspondence", data)
    assert record.metrics["recall@1px"] == 1
    assert record.dataset_size == 1


def test_what_leaves_the_second_view_is_scored_by_the_older_rule_alone(line, tmp_path):
    shift = 24  # half of the frame
    data = table(
        tmp_path, lambda picture: np.roll(picture, shift, axis=1), "homography", f"1 0 {shift} 0 1 0 0 0 1"
    )
    ours = line.record("run", "correspondence", data, "--ratio", "1")
    assert ours.metrics["recall@1px"] == 1
    assert ours.metrics["num_matches"] == (SIDE // PATCH) ** 2 / 2
    classic = line.record("run", "correspondence", data, "--ratio", "1", "--protocol", "visbench")
    assert classic.metrics["recall@1px"] == pytest.approx(0.5, abs=0.05)


def test_limit_counts_pairs(line, tmp_path):
    data = table(tmp_path, lambda picture: picture, "homography", "1 0 0 0 1 0 0 0 1", count=3)
    assert line.record("run", "correspondence", data, "--limit", "2").n["recall@5px"] == 2


def test_disparity_tells_where_the_left_image_lies_in_the_right(line, tmp_path):
    disparity = np.full((HEIGHT, WIDTH), 8 * 256, np.uint16)
    disparity[:12] = 0  # not known
    Image.fromarray(disparity).save(tmp_path / "d.png")
    data = table(tmp_path, lambda picture: np.roll(picture, -8, axis=1), "disparity", "d.png")
    record = line.record("run", "correspondence", data, "--disparity-scale", "256", "--ratio", "1")
    assert record.metrics["recall@1px"] == 1
    assert (
        record.metrics["num_matches"] == 9 * 10
    )  # rows that are known; the first two columns leave the view


def test_marked_points_are_scored_in_original_pixels(line, tmp_path):
    """CASES: the threshold is a tenth of the longer side of the box, where the second image is twice as large."""
    first = [
        [9.5, 5.5],
        [29.5, 21.5],
        [49.5, 37.5],
    ]  # centres of patches, counted from the centre of the first pixel
    second = [[2 * x + 0.5, 2 * y + 0.5] for x, y in first]
    second[1][0] += 9  # of a box 100 wide that is still found
    second[2][0] -= 11
    (tmp_path / "p.json").write_text(json.dumps({"first": first, "second": second, "box": [10, 5, 110, 30]}))
    data = table(tmp_path, lambda picture: picture.repeat(2, axis=0).repeat(2, axis=1), "keypoints", "p.json")
    record = line.record("run", "correspondence", data)
    assert record.headline == "pck@0.1"
    assert record.metrics["pck@0.1"] == pytest.approx(2 / 3)
    assert record.metrics["pck@0.1_pooled"] == pytest.approx(2 / 3)
    assert record.context["ceiling_pck@0.1"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--control", "pixels"), "has no grid of patches"),
        (("--max-warp", "0.7"), "max_warp"),
        (("--disparity-scale", "2"), "is for tables of pairs"),
        (("--thresholds", "-1"), "above 0"),
    ],
)
def test_what_means_nothing_is_refused(line, photos, words, said):
    assert said in line.refused("run", "correspondence", photos, *words)


def test_a_warp_means_nothing_to_pairs_of_their_own(line, tmp_path):
    data = table(tmp_path, lambda picture: picture, "homography", "1 0 0 0 1 0 0 0 1")
    assert "has pairs of its own" in line.refused("run", "correspondence", data, "--max-warp", "0.1")


SAME = "1 0 0 0 1 0 0 0 1"


def test_columns_of_any_name_can_be_told(line, tmp_path):
    """Where neither images nor relation are called as usual, the options alone say that these are pairs."""
    data = table(tmp_path, lambda picture: picture, "homography", SAME)
    data.write_text(data.read_text().replace("image_2,homography,image_1", "other,mat,photo"))
    told = [f"--column={each}" for each in ("first=photo", "second=other", "homography=mat")]
    assert line.record("run", "correspondence", data, *told).metrics["recall@1px"] == 1
    assert "1 pair" in line("check", data, "--task", "correspondence", *told).stdout


@pytest.mark.parametrize(
    ("units", "headline", "better"), [("pixel", "recall@7px", "0.5p"), ("patch", "recall@7p", "2px")]
)
def test_thresholds_of_ones_own_are_scored_and_sorted_by(line, tmp_path, units, headline, better):
    data = table(tmp_path, lambda picture: picture, "homography", SAME)
    record = line.record("run", "correspondence", data, "--units", units, "--thresholds", "3,7,3")
    assert (record.headline, record.better) == (headline, "higher")
    assert record.metrics[headline] == record.metrics[f"recall@{better}"] == 1


def test_a_pair_with_an_image_that_cannot_be_read_goes_alone(line, tmp_path):
    data = table(tmp_path, lambda picture: picture, "homography", SAME, count=3)
    (tmp_path / "1b.png").write_bytes((tmp_path / "1b.png").read_bytes()[:200])
    assert "1b.png cannot be read" in line.refused("run", "correspondence", data)
    record = line.record("run", "correspondence", data, "--on-bad", "skip")
    assert record.n["recall@5px"] == record.counts["test_pairs"] == 2
    assert list(record.unreadable) == ["1b.png"]


def test_warps_are_not_run_again(line, photos):
    words = ("run", "correspondence", photos, "--max-warp", "0.03,0.06,0.03", "--seed", "7")
    assert "2 records appended" in line(*words).stderr
    assert "0 records appended" in line(*words, "--resume").stderr


def test_one_pair_has_no_interval(line, tmp_path):
    data = table(tmp_path, lambda picture: picture, "homography", SAME)
    assert line.record("run", "correspondence", data).intervals == {}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ratio": 0}, "ratio is 0"),
        ({"ratio": 1.5}, "ratio is 1.5"),
        ({"ratio": float("nan")}, "ratio"),
        ({"ratio": "x"}, "ratio is 'x'; wanted a number"),
        ({"num_corr": 0}, "num_corr is 0"),
        ({"num_corr": 2.5}, "whole number"),
        ({"mutual": "no"}, "mutual is 'no'"),
        ({"thresholds": (1, "b")}, "thresholds is 'b'"),
        ({"max_warp": "x"}, "max_warp is 'x'"),
    ],
)
def test_settings_are_looked_at_before_an_image_is(fine, photos, tmp_path, settings, said):
    store = tmp_path / "store"
    with pytest.raises(UsageError, match=said):
        visbench.run(fine, "correspondence", photos, store=store, **settings)
    assert not list(store.rglob("*.json"))


def test_pairs_without_a_marked_point_are_refused(fine, tmp_path):
    picture, none = mosaic(np.random.default_rng(0)), np.zeros((0, 2))
    pairs = [(picture, picture, Keypoints(none, none, np.zeros(0, bool), 20.0))]
    with pytest.raises(UsageError, match="not defined on any pair"):
        visbench.run(fine, "correspondence", pairs, store=tmp_path / "store", workers=1)


def test_pairs_left_out_are_told_and_leave_no_trace_in_the_data(line, tmp_path):
    rng = np.random.default_rng(5)
    for name in "abcd":
        Image.fromarray(mosaic(rng)).save(tmp_path / f"{name}.png")
    cells = '"1 0 0 0 1 0 0 0 1"'
    rows = [f"{one}.png,{two}.png,{cells}" for one, two in ("ab", "cd", "cx")]
    whole, broken = tmp_path / "whole.csv", tmp_path / "broken.csv"
    whole.write_text("\n".join(["image_1,image_2,homography", rows[0]]) + "\n")
    broken.write_text("\n".join(["image_1,image_2,homography", rows[0], rows[1].replace("d.", "x.")]) + "\n")
    (tmp_path / "x.png").write_bytes(b"no picture")
    (alone,) = records(line("run", "correspondence", whole, "--json"))
    done = line("run", "correspondence", broken, "--on-bad", "skip", "--json")
    (left,) = records(done)
    assert "1 unreadable file, and with it 1 pair, left out" in done.stderr
    assert left.dataset_fingerprint == alone.dataset_fingerprint  # c.png is no part of it any more
    assert left.metrics == alone.metrics


def test_a_forecast_counts_pairs(line, photos):
    done = line("run", "correspondence", photos, "--dry-run", "--no-results")
    count = len(list(photos.rglob("*.png")))
    assert f"correspondence on {count} test pairs" in done.stdout


@pytest.mark.parametrize(
    ("warps", "said"), [((0.1, 0.2), "asks for 2 results"), ((), "max_warp has no value")]
)
def test_a_call_gives_one_result(fine, photos, tmp_path, warps, said):
    with pytest.raises(UsageError, match=said):
        visbench.run(fine, "correspondence", photos, max_warp=warps, store=tmp_path / "store")


def test_one_pair_has_no_other_half_to_be_shuffled_with(line, tmp_path):
    data = table(tmp_path, lambda picture: picture, "homography", "1 0 0 0 1 0 0 0 1")
    assert "there is one alone" in line.refused("run", "correspondence", data, "--control", "shuffle")
