"""Zero-shot classification from folder to record, on a contrastive model of a few thousand random values."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from sklearn.metrics import balanced_accuracy_score, f1_score

import visbench
from extract.backbones import load, text
from extract.requests import Request
from visbench import prompts
from visbench.errors import UsageError
from visbench.record import board_key, row_key, run_key
from visbench.zeroshot import ZeroshotProbe

CLIP = {"pretrained": False, "image_size": 32, "projection": True}
NAME = "open_clip:clip-small"


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """The name of a tiny architecture that open_clip knows meanwhile."""
    vision = {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8}
    words = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2}
    file = tmp_path_factory.mktemp("configs") / "clip-small.json"
    file.write_text(json.dumps({"embed_dim": 12, "vision_cfg": vision, "text_cfg": words}))
    open_clip.add_model_config(file)
    yield NAME
    open_clip.factory._MODEL_CONFIGS.pop("clip-small")


@pytest.fixture
def score(clip):
    def call(data, **options):
        return visbench.run(
            clip, "zeroshot", data, **{**CLIP, "dtype": "float32", "device": "cpu", **options}
        )

    return call


def by_open_clip(photos, names, templates):
    """Labels of the test split and the classes that open_clip's own classifier finds."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = open_clip.create_model("clip-small").eval()
    tokenizer = open_clip.get_tokenizer("clip-small")
    weights = open_clip.build_zero_shot_classifier(model, tokenizer, names, templates)
    transform = load(Request(NAME, **CLIP)).transform
    labels, pictures = [], []
    for label, folder in enumerate(sorted((photos / "test").iterdir())):
        for file in sorted(folder.iterdir()):
            labels.append(label)
            pictures.append(transform.place(np.asarray(Image.open(file))))
    with torch.inference_mode():
        images = model.encode_image(transform.normalise(torch.stack(pictures)), normalize=True)
    return np.array(labels), (images @ weights).argmax(1).numpy()


def test_a_run_scores_what_open_clips_own_classifier_does(score, photos, tmp_path):
    names, templates = tmp_path / "names.tsv", tmp_path / "templates.txt"
    names.write_text("owl\ta large owl\ndog\tgolden retriever\ncat\ttabby\nlynx\tlynx\n")
    templates.write_text("a photo of a {}.\n\na sketch of the {}.\n")
    result = score(photos, class_names=names, templates=str(templates))
    labels, found = by_open_clip(
        photos,
        ["tabby", "golden retriever", "a large owl"],
        ["a photo of a {}.", "a sketch of the {}."],
    )
    assert len(set(found)) > 1
    metrics = result.metrics
    assert metrics["top1"] == pytest.approx((labels == found).mean())
    assert metrics["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(labels, found))
    assert metrics["macro_f1"] == pytest.approx(f1_score(labels, found, average="macro"))
    assert "top5" not in metrics
    assert sorted(result.per_sample["top1"]) == sorted(labels == found)
    record = result.record
    assert record.level == "high"
    assert (record.context["uniform_chance"], record.context["texts"]) == (pytest.approx(1 / 3), 6)
    assert record.context["chance"] == pytest.approx(1 / 3)
    low, high = record.intervals["top1"]
    assert 0 <= low <= metrics["top1"] <= high <= 1
    assert record.task_params["templates"]["count"] == 2
    assert (result.probe.predict(np.zeros((1, 12))) == ["cat"]).all()


def test_top5_where_there_are_more_than_five_classes(score, tmp_path):
    rng = np.random.default_rng(0)
    for name in "abcdefg":
        (tmp_path / "seven" / name).mkdir(parents=True)
        for number in range(2):
            pixels = rng.integers(0, 256, (40, 40, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "seven" / name / f"{number}.png")
    metrics = score(tmp_path / "seven").metrics
    assert metrics["top1"] <= metrics["top5"] <= 1


def test_the_record_knows_what_was_said_and_not_where_it_was_written(score, photos, tmp_path):
    (tmp_path / "one.txt").write_text("cat,cat\nowl,owl\ndog,dog,puppy\n")
    (tmp_path / "two.json").write_text(json.dumps({"dog": ["puppy", "dog"], "cat": "cat", "owl": ["owl"]}))
    given = [None, {"cat": "cat", "dog": "dog", "owl": "owl"}, tmp_path / "one.txt", tmp_path / "two.json"]
    said = [score(photos, class_names=names).record.task_params for names in given]
    assert said[0] == said[1] != said[2] == said[3]
    assert score(photos, templates=["{}", prompts.TEMPLATE]).record.task_params != said[0]


def test_texts_are_embedded_once_and_a_second_run_needs_no_torch(score, photos, tmp_path, monkeypatch):
    first = score(photos)
    code = f"""
import sys, visbench
found = visbench.run("{NAME}", "zeroshot", sys.argv[1], dtype="float32", extract=False, **{CLIP})
print(found.metrics["top1"], "torch" in sys.modules)
"""
    asked = [sys.executable, "-c", code, str(photos)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(first.metrics["top1"]), "False"], done.stderr
    monkeypatch.setattr(text, "load", lambda asked: pytest.fail("the text tower was loaded again"))
    with pytest.raises(UsageError, match=r"3 texts about the classes of photos are not embedded .* yet"):
        score(photos, templates=["the {}"], extract=False)


def test_features_that_texts_cannot_be_compared_with_are_refused(score, photos, run, clip):
    with pytest.raises(UsageError, match="those before the projection; add --projection"):
        score(photos, projection=False)
    with pytest.raises(
        ValueError, match="tower of open_clip:RN50 makes its embedding in a pooling of its own"
    ):
        visbench.run("open_clip:RN50", "zeroshot", photos, pretrained=False)
    with pytest.raises(UsageError, match=r"is cls@1, and mean was asked for; leave --pooling"):
        score(photos, pooling="mean")
    with pytest.raises(UsageError, match=r"is cls@1, and default@0 was asked for"):
        score(photos, layer=0)
    with pytest.raises(ValueError, match="pixels has no text tower, and class names are compared as texts"):
        visbench.run("pixels", "zeroshot", photos)
    with pytest.raises(ValueError, match="came as a loaded backbone"):
        run(photos, "zeroshot")
    with pytest.raises(UsageError, match="learns nothing"):
        visbench.run(clip, "zeroshot", photos, photos, **CLIP)
    with pytest.raises(UsageError, match="zeroshot has no setting k; it has class_names and templates"):
        score(photos, k=5)


def test_another_text_tower_beside_the_same_images_is_another_record(score, photos, tmp_path):
    records = []
    for seed in (0, 1):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            state = open_clip.create_model("clip-small").state_dict()
        pictures = {key: each for key, each in state.items() if key.startswith("visual.")}
        first = pictures if seed == 0 else first
        torch.save({**state, **first}, tmp_path / f"{seed}.pt")
        given = {"pretrained": True, "checkpoint": str(tmp_path / f"{seed}.pt")}
        records.append(score(photos, **given).record)
    assert records[0].backbone_key == records[1].backbone_key
    assert len({row_key(each) for each in records}) == len({run_key(each) for each in records}) == 2
    assert len({board_key(each) for each in records}) == 1


def test_class_numbers_for_names_are_worth_a_word(score, photos):
    for split in ("train", "test"):
        for number, name in enumerate(("cat", "dog", "owl")):
            (photos / split / name).rename(photos / split / f"n0144000{number}")
    (warning, *_) = score(photos).warnings
    assert warning.startswith("3 classes (such as n01440000) have a number for a name")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("cat\tcat\ndog\tdog\n", r"the class names lack owl \(1 of 3 classes\); give every class"),
        ("cat\na\nb\n", r"line 1: 'cat' is no class with a name; write CLASS, a tab"),
        ("cat\tCrane\ndog\tdog\nowl\tcrane\n", r'cat and owl are both called "crane"'),
        ("cat\tx, y\ndog\ty\nowl\tz\n", r'cat and dog are both called "y"'),
        ("cat\ta\ncat\tb\n", "cat is named twice"),
        ("cat\ta,\n", '"cat" has an empty name'),
        (
            "n01 tench, fish\n",
            r"lack cat, dog, owl \(3 of 3 classes\); it names n01 tench, which the data have",
        ),
        ("\n", "there is no class name"),
    ],
)
def test_class_names_that_say_too_little_are_refused(lines, said, tmp_path):
    (tmp_path / "names.txt").write_text(lines)
    with pytest.raises(UsageError, match=said):
        prompts.make(["cat", "dog", "owl"], prompts.read_names(tmp_path / "names.txt"), [prompts.TEMPLATE])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("a photo\n", r"line 1: 'a photo' has no {} for the name"),
        ("{}\n'a photo of a {}.',\n", "line 2: .* stands in quotation marks"),
        ("\n", "there is no template"),
    ],
)
def test_templates_that_say_nothing_of_a_class_are_refused(lines, said, tmp_path):
    (tmp_path / "templates.txt").write_text(lines)
    with pytest.raises(UsageError, match=said):
        prompts.read_templates(tmp_path / "templates.txt")
    with pytest.raises(UsageError, match=r"nowhere.txt cannot be read: No such file"):
        prompts.read_templates(tmp_path / "nowhere.txt")


def test_texts_stand_class_by_class(tmp_path):
    (tmp_path / "names.json").write_text('{"b_c": ["Ω, omega", "w"], "a": "1"}')
    made = prompts.make(["a", "b_c"], prompts.read_names(tmp_path / "names.json"), ["{} {}", "{x}{}"])
    assert made.texts == ["{x}1", "1 1", "{x}w", "{x}Ω, omega", "w w", "Ω, omega Ω, omega"]
    assert made.classes.tolist() == [0, 0, 1, 1, 1, 1]
    assert prompts.make(["b_c"], None, ["{}"]).texts == ["b c"]
    (tmp_path / "list.json").write_text('["a", "b"]')
    with pytest.raises(UsageError, match="holds no object"):
        prompts.read_names(tmp_path / "list.json")


def test_a_probe_of_ones_own_texts():
    probe = ZeroshotProbe().fit(np.eye(3)[[0, 1, 1]], ["cat", "dog", "dog"])
    images = np.array([[1, 0.2, 0], [0, 2, 1], [3, 1, 0]])
    assert probe.predict(images).tolist() == ["cat", "dog", "cat"]
    assert probe.evaluate(images, ["cat", "dog", "dog"])["top1"] == pytest.approx(2 / 3)
    with pytest.raises(UsageError, match="no text is about class owl"):
        probe.evaluate(images, ["cat", "dog", "owl"])
    with pytest.raises(UsageError, match="knows no class yet"):
        ZeroshotProbe().predict(images)
