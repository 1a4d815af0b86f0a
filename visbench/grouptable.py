"""The rows of the task table that score pairs and triplets of images.  Nothing heavy is imported to read them."""

from __future__ import annotations

from visbench.task import Task

_PAIRS = """\
DATA is any folder or table of images: each is paired with a view that is made of it, its crop under a random
homography (--max-warp). Or it has pairs of its own:

\b
  pairs.csv                                    a homography: nine numbers, or a file
    image_1,image_2,homography                 (.txt, .npy, OpenCV's .xml or .yml)
    wall/1.png,wall/3.png,wall/H_1_3.txt
\b
  stereo.csv                                   a disparity map of the left image,
    left,right,disparity                       --disparity-scale stored values a pixel
    im0.png,im1.png,disp0.png
\b
  points.csv                                   points marked in both images
    image_1,image_2,keypoints                  {"first": [[x, y], …], "second": …, "box": …}
    a.jpg,b.jpg,a_b.json
\b
  SPair-71k/  JPEGImages/ PairAnnotation/ Layout/      hpatches/  v_wall/ 1.ppm … 6.ppm H_1_2 … H_1_6

The features of patches are matched as they are, by cosine; nothing is learnt."""

_TRIPLETS = """\
DATA is NIGHTS, or a table of triplets:

\b
  nights/                                      triplets.csv
    data.csv                                     reference,left,right,choice
      id,ref_path,left_path,right_path,          a.png,b.png,c.png,left
      left_vote,right_vote,votes,split,…         d.png,e.png,f.png,right
    ref/000/000.png
    distort/000/000_0.png 000_1.png            or reference,positive,negative

Paths are relative to the table; columns are found by their names, in any order. A triplet counts as right where the
image that people chose is nearer to the reference by its pooled features; a tie counts half."""

_POSES = """\
DATA is NAVI as it unpacks, or a table of images with the poses of their cameras:

\b
  navi_v1.5/                      posed.csv
    3d_dollhouse_sink/              path,scene,qw,qx,qy,qz,tx,ty,tz,split
      multiview-00-pixel_5/         cup/000.jpg,cup,0.99,0.1,0,0,0.02,-0.1,0.8,train
        annotations.json            cup/001.jpg,cup,0.97,0.2,0.1,0,0.03,-0.2,0.7,test
        images/000.jpg …

A pose takes a point of the world into the camera's axes: R x + t, as COLMAP writes it. Pairs are two images of one
scene and one split. Without splits a fifth of each scene's images is scored."""

_GRID_WARNING = (
    "read this first: in pixels a coarse grid of patches caps the score (see the ceiling), in patch widths it has the "
    "easier task; the two orders may differ, so compare backbones of one grid"
)

GROUPED = (
    Task(
        name="correspondence",
        level="mid",
        summary="How well patch features find the same place again in another view; nothing is learnt.",
        reads="images, or pairs of images",
        layout=_PAIRS,
        measure="visbench.correspondence:Correspondence",
        probes={},
        headline="recall@5px",
        metrics=dict.fromkeys(  # at whatever thresholds are asked for
            (
                *(f"{name}@*{unit}" for name in ("recall", "auc") for unit in ("px", "p")),
                "pck@*",
                "num_matches",
            ),
            "higher",
        )
        | {"mean_error_px": "lower", "median_error_px": "lower"},
        shown=(
            *(
                "recall@5px",
                "recall@1p",
                "auc@10px",
                "num_matches",
                "ceiling_recall@5px",
                "ceiling_recall@1p",
            ),
            *("pck@0.1", "pck@0.1_pooled", "ceiling_pck@0.1"),
        ),
        fitted=False,
        reading="visbench.paired:Paired",
        opening="visbench.related:correspondence",
        truth=(
            *("columns", "origin", "disparity_scale", "disparity_offset", "disparity_hole", "disparity_key"),
            "depth_scale",
        ),
        settings=("max_warp", "num_corr", "ratio", "mutual", "units", "thresholds"),
        pooled=False,
        limit="pairs of each split, or images where pairs are made of them",
        caution=_GRID_WARNING,
    ),
    Task(
        name="similarity",
        level="mid",
        summary="How often features agree with people on which of two images is more like a third (2AFC).",
        reads="triplets of images",
        layout=_TRIPLETS,
        measure="visbench.similarity:Similarity",
        probes={},
        headline="accuracy",
        metrics=dict.fromkeys(
            ("accuracy", "precision", "recall", "f1", "accuracy_imagenet", "accuracy_no_imagenet"), "higher"
        )
        | {"tie_rate": "lower"},
        shown=(
            *("accuracy", "precision", "recall", "f1", "tie_rate"),
            *("accuracy_imagenet", "accuracy_no_imagenet"),
        ),
        fitted=False,
        reading="visbench.grouped:Grouped",
        opening="visbench.related:similarity",
        truth=("min_votes", "partition", "columns"),
        settings=("metric",),
        columns=False,
        limit="triplets of each split",
    ),
    Task(
        name="relative_pose",
        level="mid",
        summary="How well features of two images tell how the second camera stands to the first.",
        reads="pairs of images with the poses of their cameras",
        layout=_POSES,
        measure="visbench.relative_pose:RelativePose",
        probes={
            "mlp": "three hidden layers on the features of both images, settings chosen on held-out images"
        },
        headline="rotation_error_deg",
        metrics={
            **dict.fromkeys(
                ("rotation_error_deg", "rotation_error_median_deg", "translation_error_m"), "lower"
            ),
            **dict.fromkeys(("within_15", "within_30"), "higher"),
        },
        shown=(
            *("rotation_error_deg", "rotation_error_median_deg", "within_15", "within_30"),
            *("translation_error_m", "floor_rotation_error_deg"),
        ),
        reading="visbench.pose_reading:Posed",
        opening="visbench.pose_reading:opened",
        truth=("columns", "pairs_per_image", "max_rotation", "target_scale"),
        settings=("learning_rate", "weight_decay", "epochs", "train_batch_size"),
        columns=False,
        limit="pairs of each split",
    ),
)
