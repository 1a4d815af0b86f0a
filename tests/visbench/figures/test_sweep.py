"""The picture: what its axes, frames, keys and words say, and what is refused."""

import subprocess
import sys
import warnings

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from PIL import Image

from visbench.errors import UsageError
from visbench.figures import sweep

RATES, DECAYS = [1e-3, 1e-2, 1e-1], [0, 1e-4]
MAP = {"learning_rate": RATES, "weight_decay": DECAYS}


def panels(figure):
    return [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]


def bars(figure):
    return [ax for ax in figure.axes if ax.get_label() == "<colorbar>"]


def marked(ax, name):
    """Where the patches or points of one kind are, as (x, y)."""
    boxes = [tuple(np.add(each.get_xy(), 0.5)) for each in ax.patches if each.get_gid() == name]
    points = [tuple(xy) for line in ax.lines if line.get_gid() == name for xy in line.get_xydata()]
    return [*boxes, *points]


def key(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def caption(figure):
    return figure.texts[-1].get_text()


def test_a_curve_for_each_backbone(sweep_of):
    axes = {"learning_rate": RATES}
    trials = sweep_of(
        axes,
        ["vit", "cnn"],
        std=0.01,
        diverged=lambda t: t["backbone"] == "cnn" and t["learning_rate"] == 0.1,
    )
    figure = sweep.figure(trials, axes, caption="photos")
    (ax,) = panels(figure)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("learning_rate", "top1")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["vit", "cnn"]
    assert ax.get_xticks() == pytest.approx([-3, -2, -1])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1e-3", "0.01", "0.1"]
    assert sorted(marked(ax, "chosen")) == [pytest.approx((-2, 0.504)), pytest.approx((-1, 0.502))]
    assert [x for x, _ in marked(ax, "diverged")] == [-1]
    assert key(figure) == ["chosen", "diverged", "± standard deviation"]
    assert caption(figure) == "photos · held-out top1, 6 settings, 1 diverged"


def test_the_band_is_one_standard_deviation(sweep_of):
    axes = {"learning_rate": RATES}
    (ax,) = panels(sweep.figure(sweep_of(axes, std=0.02), axes))
    (band,) = [each for each in ax.collections if each.get_gid() == "band"]
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (pytest.approx(0.48), pytest.approx(0.522))


def test_nought_stands_beside_the_logarithmic_axis_and_no_line_leads_to_it(sweep_of):
    axes = {"weight_decay": [0, 1e-4, 1e-3, 1e-2]}
    (ax,) = panels(sweep.figure(sweep_of(axes), axes))
    assert ax.get_xticks() == pytest.approx([-5.3, -4, -3, -2])
    assert ax.get_xticklabels()[0].get_text() == "0"
    (gap,) = [text for text in ax.texts if text.get_gid() == "break"]
    assert gap.get_position()[0] == pytest.approx(-4.65)
    joined = [line for line in ax.lines if line.get_linestyle() == "-"]
    assert [line.get_xdata().tolist() for line in joined] == [[-4, -3, -2]]


def test_a_line_passes_over_what_was_not_tried_and_stops_at_what_diverged(sweep_of):
    axes = {"layer": [0, 1, 2, 3]}
    trials = sweep_of(axes, ["vit", "cnn"], skipped=lambda t: t["backbone"] == "vit" and t["layer"] == 1)
    trials[-2]["score"] = float("nan")
    (ax,) = panels(sweep.figure(trials, axes))
    vit, cnn = [line.get_ydata() for line in ax.lines if line.get_linestyle() == "-"]
    assert vit == pytest.approx([0.5, 0.501, 0.502])
    assert np.isnan(cnn).tolist() == [False, False, True, False]


def test_words_are_points_and_no_line(sweep_of):
    axes = {"tap": ["cls", "mean"]}
    (ax,) = panels(sweep.figure(sweep_of(axes, ["vit", "cnn"]), axes))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["cls", "mean"]
    assert not [line for line in ax.lines if line.get_linestyle() == "-" and len(line.get_xdata())]


def test_a_map_frames_the_chosen_hatches_the_diverged_and_writes_the_scores(sweep_of):
    trials = sweep_of(MAP, diverged=lambda t: t["learning_rate"] == 0.1 and t["weight_decay"] == 1e-4)
    figure = sweep.figure(trials, MAP, title="photos")
    (ax,) = panels(figure)
    (bar,) = bars(figure)
    assert (ax.get_xlabel(), ax.get_ylabel(), bar.get_ylabel()) == ("learning_rate", "weight_decay", "top1")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1e-4"]
    assert marked(ax, "chosen") == [(2, 0)]
    assert marked(ax, "diverged") == [(2, 1)]
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert written == {(0, 0): "0.500", (0, 1): "0.501", (1, 0): "0.502", (1, 1): "0.503", (2, 0): "0.504"}
    (mesh,) = [each for each in ax.collections if isinstance(each, QuadMesh)]
    assert mesh.get_array().filled(-1) == pytest.approx(np.array([[0.5, 0.502, 0.504], [0.501, 0.503, -1]]))
    assert key(figure) == ["chosen", "diverged"]
    assert "photos" in [text.get_text() for text in figure.texts]


def test_small_multiples_share_one_scale(sweep_of):
    axes = {"layer": [2, 5, 8, 11], "tap": ["cls", "mean"], **MAP}
    trials = sweep_of(axes, ["vit", "cnn"], skipped=lambda t: t["backbone"] == "cnn" and t["tap"] == "cls")
    figure = sweep.figure(trials, axes)
    assert (len(panels(figure)), len(bars(figure))) == (12, 1)
    scales = {mesh.norm.vmin for ax in panels(figure) for mesh in ax.collections} | {
        mesh.norm.vmax for ax in panels(figure) for mesh in ax.collections
    }
    assert scales == {0.5, 0.571}
    assert sum(len(marked(ax, "chosen")) for ax in panels(figure)) == 2
    assert [bool(ax.get_ylabel()) for ax in panels(figure)] == [True, False, False, False] * 3
    assert [bool(ax.get_xlabel()) for ax in panels(figure)] == [False] * 8 + [True] * 4


def test_lower_is_better_turns_the_colours_and_says_so(sweep_of):
    (bar,) = bars(sweep.figure(sweep_of(MAP), MAP, metric="error_deg", better="lower"))
    assert bar.get_ylabel() == "error_deg (lower is better)"
    assert bar.collections[-1].get_cmap().name == "viridis_r"


def test_a_reduced_picture_says_over_what(sweep_of):
    axes = {"layer": list(range(30)), **MAP}
    figure = sweep.figure(sweep_of(axes), axes)
    said = caption(figure).replace("\n", " ")
    assert said.endswith("180 settings · maps: maximum over layer · curves: maximum over all other axes")


def test_probes_stand_below_each_other(sweep_of):
    axes = {"C": [0.1, 1.0], "k": [5, 20]}
    trials = sweep_of({"C": axes["C"]}, probe="logistic") + sweep_of({"k": axes["k"]}, probe="knn")
    above, below = panels(sweep.figure(trials, axes))
    assert [ax.get_title("left") for ax in (above, below)] == ["logistic · vit", "knn · vit"]
    assert above.get_position().y0 > below.get_position().y1


LONG = ["timm:vit_base_patch14_reg4_dinov2.lvd142m", "open_clip:ViT-B-16-SigLIP2-256/webli", "x" * 70]


@pytest.mark.parametrize(
    ("axes", "backbones"),
    [
        ({"C": [1.0]}, LONG),
        ({"C": list(np.logspace(-6, 4, 21))}, LONG),
        (MAP, LONG),
        (MAP, LONG[:1]),
        ({"C": list(np.logspace(-6, 2, 33)), "layer": list(range(24)), "tap": ["cls", "mean"]}, LONG),
        (
            {"layer": list(range(12)), "standardize": [True, False], **MAP},
            [f"{LONG[0]}_{i}" for i in range(12)],
        ),
    ],
)
def test_nothing_is_cut_off(sweep_of, axes, backbones):
    figure = sweep.figure(
        sweep_of(axes, backbones), axes, title="a long title " * 12, caption="and caption " * 20
    )
    width, height = figure.get_size_inches() * figure.dpi
    inside = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    assert inside.x0 >= 0
    assert inside.y0 >= 0
    assert inside.x1 <= width
    assert inside.y1 <= height


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_equal_sweeps_give_equal_files_and_nothing_else(sweep_of, tmp_path, suffix):
    trials = sweep_of(MAP, ["$vit$", "c\nnn"], diverged=lambda t: t["learning_rate"] == 0.1)
    paths = [tmp_path / "new folder" / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        sweep.draw(trials, MAP, path, title="写真")
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert sorted(paths[0].parent.iterdir()) == paths
    for moment in (b"CreationDate", b"<dc:date>", b"Matplotlib v", b"Software"):
        assert moment not in first


def test_letters_of_a_drawing_are_outlines(sweep_of, tmp_path):
    sweep.draw(sweep_of(MAP), MAP, tmp_path / "a.svg")
    drawing = (tmp_path / "a.svg").read_text()
    assert "<text" not in drawing
    assert 'id="chosen"' in drawing


def test_a_picture_is_light(sweep_of, tmp_path):
    sweep.draw(sweep_of(MAP), MAP, tmp_path / "a.png")
    assert Image.open(tmp_path / "a.png").convert("RGB").getpixel((0, 0)) == (255, 255, 255)


def test_the_users_own_look_is_neither_used_nor_changed(sweep_of, tmp_path):
    sweep.draw(sweep_of(MAP), MAP, tmp_path / "a.png")
    with mpl.rc_context({"figure.facecolor": "black", "font.size": 30, "axes.grid": True}):
        before = dict(mpl.rcParams)
        sweep.draw(sweep_of(MAP), MAP, tmp_path / "b.png")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_drawing_starts_no_pyplot_and_importing_no_matplotlib(tmp_path):
    code = f"""
import sys
from visbench.figures import sweep, terminal
assert "matplotlib" not in sys.modules
sweep.check({str(tmp_path / "a.png")!r})
assert "matplotlib" not in sys.modules
trials = [{{"backbone": "vit", "C": c, "score": c, "chosen": False}} for c in (0.1, 0.2)]
sweep.draw(trials, {{"C": [0.1, 0.2]}}, {str(tmp_path / "a.png")!r})
assert "matplotlib.pyplot" not in sys.modules
assert not {{"torch", "jax"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_letter_no_font_has_is_not_warned_of(sweep_of, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sweep.draw(sweep_of(MAP), MAP, tmp_path / "a.png", title="\U0001f98a 写真")


@pytest.mark.parametrize("name", ["sweep.jpg", "sweep", "sweep.png.txt"])
def test_another_suffix_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match=r"must end in \.png or \.svg or \.pdf"):
        sweep.check(tmp_path / name)


def test_a_missing_matplotlib_is_named_with_its_install_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for refused in (sweep.check, lambda path: sweep.draw([], {}, path)):
        with pytest.raises(UsageError, match=r"needs matplotlib: pip install 'visbench\[plot\]'"):
            refused(tmp_path / "sweep.png")


def test_a_place_that_cannot_be_written_is_refused_beforehand(tmp_path):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").write_text("")
    for path, why in ((tmp_path / "folder.png", "folder"), (tmp_path / "file" / "a.png", "not a directory")):
        with pytest.raises(UsageError, match=f"cannot be written to .*{why}"):
            sweep.check(path)
    sweep.check(tmp_path / "not" / "yet" / "a.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.png"]


def test_a_picture_that_fails_leaves_the_old_one(sweep_of, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    def fail(self, path, **options):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    (tmp_path / "a.png").write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(UsageError, match="no space left"):
        sweep.draw(sweep_of(MAP), MAP, tmp_path / "a.png")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.png", b"old")]


def test_many_values_have_as_many_ticks_as_labels_and_no_markers(sweep_of):
    for count, many in ((10, False), (1000, True)):
        axes = {"C": [10 ** (i / count) for i in range(count)]}
        (ax,) = panels(sweep.figure(sweep_of(axes), axes))
        words = [label.get_text() for label in ax.get_xticklabels()]
        assert len(words) <= 20
        assert any(words)
        marked = [line for line in ax.lines if line.get_marker() == "o" and len(line.get_xdata()) == count]
        assert (not marked) is many
