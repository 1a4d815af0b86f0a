"""Which view each task has.  Nothing is imported to read this."""

from __future__ import annotations

FEATURES = "features"  # not a task: the patch features themselves
VIEWS = {
    "classification": "classes",
    "zeroshot": "classes",
    "retrieval": "neighbours",
    "similarity": "triplets",
    "relative_pose": "poses",
    "correspondence": "matches",
    "detection": "boxes",
    "instance_segmentation": "boxes",
}
MATRIX = ("classification", "zeroshot")  # tasks that have a matrix of who is taken for whom
