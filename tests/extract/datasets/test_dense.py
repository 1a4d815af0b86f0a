"""One way in: which layout a folder is taken for, and options that another layout has no use for."""

import numpy as np
import pytest

from extract.datasets.dense import layout_of, open_dense
from extract.errors import InputError
from extract.maps.readers import DepthReader, LabelReader, ResponseReader

LABELS = LabelReader(num_classes=21)


@pytest.fixture
def voc(tmp_path, save, photo):
    root = tmp_path / "VOCdevkit/VOC2012"
    save(root / "JPEGImages/a.jpg", photo(0))
    save(root / "SegmentationClass/a.png", np.zeros((6, 8), np.uint8), palette=True)
    (root / "ImageSets/Segmentation").mkdir(parents=True)
    (root / "ImageSets/Segmentation/train.txt").write_text("a\n")
    return root


def test_each_layout_is_told(tmp_path, voc, save, photo):
    assert layout_of(voc) == layout_of(voc.parent) == "voc"
    save(tmp_path / "plain/images/a.jpg", photo(0))
    assert layout_of(tmp_path / "plain") == layout_of(tmp_path / "nowhere") == "folders"
    (tmp_path / "ade/annotations/training").mkdir(parents=True)
    assert layout_of(tmp_path / "ade") == "ade"
    (tmp_path / "nyu/nyu_geonet").mkdir(parents=True)
    assert layout_of(tmp_path / "nyu") == layout_of(tmp_path / "nyu/nyu_geonet") == "nyu"
    save(tmp_path / "rooms/rgb/allen/point_0_view_0_domain_rgb.png", photo(0))
    assert layout_of(tmp_path / "rooms") == "taskonomy"


def test_a_layout_is_opened_unless_folders_are_named(voc):
    assert open_dense(voc, reader=LABELS)["train"].targets.params["layout"] == "voc"
    plain = open_dense(voc, reader=LABELS, image_dir="JPEGImages", target_dir="SegmentationClass")
    assert list(plain) == ["all"]
    aug = open_dense(voc, reader=LABELS, layout="voc", target_dir="SegmentationClass", name="x")
    assert aug.name == "x"
    usual = open_dense(voc, reader=LABELS, target_dir=("labels", "masks"))  # names to look for change nothing
    assert usual["train"].targets.params["layout"] == "voc"


def test_taskonomy_needs_its_domain(tmp_path, save, photo):
    for domain in ("rgb", "edge_texture"):
        pixels = photo(0) if domain == "rgb" else np.zeros((6, 8), np.uint16)
        save(tmp_path / f"train/{domain}/allen/point_0_view_0_domain_{domain}.png", pixels)
    reader = ResponseReader(scale=1000)
    with pytest.raises(InputError, match=r"choose one of edge_texture.*--domain"):
        open_dense(tmp_path, reader=reader)
    assert len(open_dense(tmp_path, reader=reader, domain="edge_texture")["train"]) == 1


def test_options_without_a_use_are_refused(voc, tmp_path):
    with pytest.raises(InputError, match="read as voc, which has no use for domain"):
        open_dense(voc, reader=LABELS, domain="normal")
    with pytest.raises(InputError, match="read as voc, which has no use for image_dir"):
        open_dense(voc, reader=LABELS, layout="voc", image_dir="JPEGImages")
    with pytest.raises(InputError, match="read as nyu, which has no use for target_dir"):
        open_dense(tmp_path, reader=DepthReader(), layout="nyu", target_dir="depth")
    with pytest.raises(InputError, match="no layout 'coco'"):
        open_dense(voc, reader=LABELS, layout="coco")
