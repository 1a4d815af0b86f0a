"""Taskonomy made by hand: where views lie, who divides buildings, scales, holes and masks."""

import numpy as np
import pytest

from extract.datasets.domains import DOMAINS
from extract.datasets.taskonomy import looks_like_taskonomy, open_taskonomy
from extract.errors import InputError
from extract.maps.readers import DepthReader, ResponseReader

VIEWS = ("point_10_view_0", "point_2_view_1", "point_2_view_10")  # whose order by text is another


def by_domain(building, domain, view):
    return f"{domain}/{building}/{view}_domain_{domain}.png"


def by_building(building, domain, view):
    return f"{building}/{domain}/{view}_domain_{domain}.png"


def omnidata(building, domain, view):
    name = "depth_zbuffer" if domain == "mask_valid" else domain  # masks bear another domain there
    return f"{domain}/taskonomy/{building}/{view}_domain_{name}.png"


@pytest.fixture
def make(save, photo):
    """`make(root, buildings, domain, values)`: views of buildings with a map of 4×5 each."""

    def build(root, buildings, domain, values=None, lay=by_domain, masks=None):
        values = np.arange(20, dtype=np.uint16).reshape(4, 5) if values is None else values
        for i, building in enumerate(buildings):
            for j, view in enumerate(VIEWS):
                save(root / lay(building, "rgb", view), photo(10 * i + j, 4, 5))
                save(root / lay(building, domain, view), values)
                if masks is not None:
                    save(root / lay(building, "mask_valid", view), masks)
        return root

    return build


@pytest.mark.parametrize("lay", [by_domain, by_building, omnidata])
def test_layouts_with_the_published_table(tmp_path, make, lay):
    make(tmp_path, ("allen", "beech", "cosmo"), "edge_texture", lay=lay)
    table = "id,train,val,test\nallen,1,0,0\nbeech,0,1,0\ncosmo,0,0,1\nabsent,1,0,0\n"
    (tmp_path / "train_val_test_tiny.csv").write_text(table)
    assert looks_like_taskonomy(tmp_path)
    splits = open_taskonomy(tmp_path, "edge_texture")
    assert list(splits) == ["train", "val", "test"]
    assert splits["val"].names == tuple(lay("beech", "rgb", VIEWS[i]) for i in (1, 2, 0))
    assert splits["val"].targets.names[0] == lay("beech", "edge_texture", VIEWS[1])
    assert np.allclose(splits["test"].targets.read(0), np.arange(20).reshape(4, 5) / 1000)
    assert splits["test"].targets.params == {"layout": "taskonomy", "domain": "edge_texture"}


@pytest.mark.parametrize("lay", [by_domain, by_building])
def test_folders_of_splits(tmp_path, make, lay):
    make(tmp_path / "train", ("allen", "beech"), "keypoints2d", lay=lay)
    make(tmp_path / "Validation", ("cosmo",), "keypoints2d", lay=lay)
    assert looks_like_taskonomy(tmp_path)
    splits = open_taskonomy(tmp_path, "keypoints2d", name="tiny")
    assert {split: len(each) for split, each in splits.items()} == {"train": 6, "val": 3}
    assert splits.name == "tiny"
    assert np.allclose(splits["val"].targets.read(0), np.arange(20).reshape(4, 5) / 30)
    with pytest.raises(InputError, match="has folders of splits already"):
        open_taskonomy(tmp_path, "keypoints2d", buildings={"train": ["allen"]})


def test_buildings_are_divided_by_name_or_not_at_all(tmp_path, make):
    make(tmp_path, ("allen", "beech"), "edge_texture")
    with pytest.raises(InputError, match=r"no table of splits .* buildings must be divided, not views"):
        open_taskonomy(tmp_path, "edge_texture")
    splits = open_taskonomy(tmp_path, "edge_texture", buildings={"train": ["beech"], "test": ["allen"]})
    assert {split: each.names[0].split("/")[1] for split, each in splits.items()} == {
        "train": "beech",
        "test": "allen",
    }
    with pytest.raises(InputError, match="train and val share 1 stem: allen"):
        open_taskonomy(tmp_path, "edge_texture", buildings={"train": ["allen"], "val": ["allen"]})
    with pytest.raises(InputError, match="none of the buildings"):
        open_taskonomy(tmp_path, "edge_texture", buildings={"train": ["x"]})
    (tmp_path / "a.csv").write_text("name,split\nallen,train\n")
    with pytest.raises(InputError, match="no columns id, train, val and test"):
        open_taskonomy(tmp_path, "edge_texture")
    (tmp_path / "b.csv").write_text("id,train\n")
    with pytest.raises(InputError, match=r"several tables \(a\.csv, b\.csv\)"):
        open_taskonomy(tmp_path, "edge_texture")


def test_holes_of_depth_and_units(tmp_path, make):
    depth = np.full((4, 5), 1024, np.uint16)
    depth[0, :2] = 65535, 512
    make(tmp_path / "train", ("allen",), "depth_zbuffer", depth)
    assert open_taskonomy(tmp_path, "depth_zbuffer")["train"].targets.read(0)[0, :3].tolist() == [0, 1, 2]


def test_masks_of_occlusion_edges(tmp_path, make):
    """A hole holds a plain 0, which without its mask would mean that there is no edge."""
    edges = np.full((4, 5), 50, np.uint16)
    edges[0, :2] = 0
    mask = np.full((4, 5), 255, np.uint8)
    mask[0, 0] = 0
    make(tmp_path / "train", ("allen",), "edge_occlusion", edges, masks=mask)
    targets = open_taskonomy(tmp_path, "edge_occlusion")["train"].targets
    assert np.allclose(targets.read(0)[0, :3], [-1, 0, np.log(2)])
    assert targets.params["mask"] == "mask_valid"
    assert len(targets.sources) == 2
    (tmp_path / f"train/mask_valid/allen/{VIEWS[0]}_domain_mask_valid.png").unlink()
    with pytest.raises(InputError, match="lacks mask_valid of 1 view: allen point_10_view_0"):
        open_taskonomy(tmp_path, "edge_occlusion")


def test_without_masks_the_record_says_so(tmp_path, make):
    make(tmp_path / "train", ("allen",), "edge_occlusion")
    targets = open_taskonomy(tmp_path, "edge_occlusion")["train"].targets
    assert targets.params["mask"] is None
    assert targets.read(0)[0, 0] == 0


def test_a_reader_keeps_what_it_was_told_and_gets_the_rest_from_the_domain(tmp_path, make):
    make(tmp_path / "train", ("allen",), "edge_texture", masks=np.zeros((4, 5), np.uint8))
    for reader, divisor in (
        (ResponseReader(mask=True), 1000),  # edges of texture have no holes
        (ResponseReader(scale=10), 10),
    ):
        targets = open_taskonomy(tmp_path, "edge_texture", reader=reader)["train"].targets
        assert np.allclose(targets.read(0), np.arange(20).reshape(4, 5) / divisor)
    log = open_taskonomy(tmp_path, "edge_texture", reader=ResponseReader(log1p=True))["train"].targets
    assert np.allclose(log.read(0), np.log1p(np.arange(20).reshape(4, 5) / 1000))
    with pytest.raises(
        InputError, match="edge_texture holds response, and depth was asked for; choose depth_z"
    ):
        open_taskonomy(tmp_path, "edge_texture", reader=DepthReader())


def test_masks_under_the_name_that_omnidata_gives_them(tmp_path, make):
    mask = np.zeros((4, 5), np.uint8)
    mask[1:] = 255
    make(tmp_path, ("allen", "beech"), "edge_occlusion", lay=omnidata, masks=mask)
    splits = open_taskonomy(tmp_path, "edge_occlusion", buildings={"train": ["allen"], "val": ["beech"]})
    assert (splits["val"].targets.read(0)[0] == -1).all()
    assert (splits["val"].targets.read(0)[1:] >= 0).all()


def test_normals(tmp_path, make):
    colours = np.full((4, 5, 3), (128, 128, 255), np.uint8)
    colours[0, 0] = 128  # a hole, as Taskonomy has them
    make(tmp_path / "train", ("allen",), "normal", colours)
    found = open_taskonomy(tmp_path, "normal")["train"].targets.read(0)
    assert not found[0, 0].any()
    assert np.degrees(np.arccos(found[1, 1] @ (0, 0, 1))) == pytest.approx(0.318, abs=1e-3)


@pytest.mark.parametrize("domain", ["principal_curvature", "reshading"])
def test_domains_that_are_not_offered_say_why(tmp_path, domain):
    with pytest.raises(InputError, match=f"{domain} is not offered: .*; take one of {', '.join(DOMAINS)}"):
        open_taskonomy(tmp_path, domain)


def test_what_is_incomplete_or_elsewhere(tmp_path, make, save, photo):
    with pytest.raises(InputError, match="no domain 'edges'"):
        open_taskonomy(tmp_path, "edges")
    with pytest.raises(InputError, match="there is no folder"):
        open_taskonomy(tmp_path / "none", "normal")
    with pytest.raises(InputError, match="holds no view of Taskonomy"):
        open_taskonomy(tmp_path, "normal")
    root = make(tmp_path / "train", ("allen",), "edge_texture").parent
    extra = save(
        tmp_path / "train" / by_domain("allen", "edge_texture", "point_3_view_3"), np.zeros((4, 5), np.uint8)
    )
    with pytest.raises(InputError, match=r"\(train\) lacks rgb of 1 view: allen point_3_view_3"):
        open_taskonomy(root, "edge_texture")
    extra.unlink()
    save(tmp_path / "train" / by_building("allen", "rgb", VIEWS[0]), photo(0))
    with pytest.raises(InputError, match="are the same view of allen"):
        open_taskonomy(root, "edge_texture")
    (tmp_path / "train" / by_building("allen", "rgb", VIEWS[0])).unlink()
    save(tmp_path / by_domain("beech", "rgb", VIEWS[0]), photo(0))
    with pytest.raises(InputError, match="buildings such as beech; move them into a split"):
        open_taskonomy(root, "edge_texture")
