"""The task table: to add a task is to add a row.

Names are import paths, so that reading the table imports nothing.  Levels follow Chen, Marks & Cheng
(arXiv:2411.17474): high (what it is), mid (geometry, grouping), low (signal).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visbench.boxes.table import BOXED
from visbench.dense.table import DENSE
from visbench.errors import UsageError, did_you_mean
from visbench.grouptable import GROUPED
from visbench.task import Task

if TYPE_CHECKING:
    from visbench.options import Options
    from visbench.record import Record


_LABELLED_IMAGES = """\
DATA is a folder, or a CSV or Parquet table:

\b
  photos/                         photos.csv
    train/                          path,label,split
      cat/  a.jpg b.png             img/a.jpg,cat,train
      dog/  c.jpg                   img/c.jpg,dog,train
    val/    (or valid, validation)  img/d.jpg,cat,test
      cat/  …
    test/
      cat/  d.jpg

`test` is scored where there is one and `val` then selects the settings; otherwise `val` is scored and a
fifth of `train` selects. Without splits (photos/cat/…, photos/dog/…) a fifth is drawn and scored."""

_ANY_LABELLED_IMAGES = """\
DATA is a folder of class folders, or a CSV or Parquet table with the columns path and label:

\b
  photos/
    [test/]
      cat/  a.jpg b.jpg
      dog/  c.jpg d.jpg

Every image is a query and all others are its gallery; a result is relevant if it bears the query's label."""

_NAMED_IMAGES = """\
DATA is a folder of class folders, or a CSV or Parquet table with the columns path and label:

\b
  photos/                 names.tsv (--class-names)       templates.txt (--templates)
    [test/]                 n01440764<tab>tench             a photo of a {}.
      n01440764/  a.jpg     n02012849<tab>crane bird        a sketch of a {}.
      n02012849/  b.jpg

Every image gets the class whose texts are nearest to it. Without names a class is called as its folder is."""

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="classification",
            level="high",
            summary="How well a simple read-out tells the classes of whole images.",
            reads="images with labels",
            layout=_LABELLED_IMAGES,
            measure="visbench.classification:Classification",
            probes={
                "logistic": "multinomial logistic regression solved to its optimum, C chosen on held-out data",
                "linear": "one affine layer trained with AdamW, the classic linear probe",
                "ridge": "least squares on one-hot targets, its penalty chosen on held-out data",
                "knn": "votes of the nearest training images, cosine similarity",
            },
            headline="top1",
            settings=(
                *("C", "l2", "k", "temperature", "learning_rate", "weight_decay", "epochs"),
                *("train_batch_size", "optimizer", "schedule"),
            ),
            metrics=dict.fromkeys(
                ("top1", "top5", "balanced_accuracy", "macro_f1", "knn5_top1", "knn20_top1"), "higher"
            ),
        ),
        Task(
            name="retrieval",
            level="high",
            summary="How well images of one class find each other, nothing learnt.",
            reads="images with labels",
            layout=_ANY_LABELLED_IMAGES,
            measure="visbench.retrieval:Retrieval",
            probes={},
            settings=("topk",),
            headline="map",
            metrics=dict.fromkeys(("map", "recall@1", "recall@5", "recall@10"), "higher"),
            fitted=False,
        ),
        Task(
            name="zeroshot",
            level="high",
            summary="How well the names of classes, as texts, find their images; for models with a text tower.",
            reads="images with labels",
            layout=_NAMED_IMAGES,
            measure="visbench.zeroshot:Zeroshot",
            reading="visbench.zeroshot:Described",
            probes={},
            settings=("class_names", "templates"),
            headline="top1",
            metrics=dict.fromkeys(("top1", "top5", "balanced_accuracy", "macro_f1"), "higher"),
            fitted=False,
            shown=("top5", "balanced_accuracy", "macro_f1"),
        ),
        *GROUPED,
        *DENSE,
        *BOXED,
    )
}


def get_task(name: str) -> Task:
    """The row of `name`; an unknown name is refused with the nearest one."""
    if name not in TASKS:
        raise UsageError(
            f'there is no task "{name}".{did_you_mean(name, TASKS)} `visbench list tasks` names all.'
        )
    return TASKS[name]


def better(record: Record, metric: str) -> str | None:
    """ "higher" or "lower"; None where nobody says which way a metric of a record points."""
    if metric == record.headline:
        return record.better
    return TASKS[record.task].better(metric) if record.task in TASKS else None


def probe_name(task: Task, probe: str | None, options: Options) -> str | None:
    """The probe asked for, or the one that the other options mean; an unknown one is refused."""
    if probe is None:
        given = {*options.probe_settings, *(options.grid or ())}
        trained = {"learning_rate", "weight_decay", "epochs", "optimizer", "schedule"} & given
        classic = "linear" in task.probes and (trained or options.protocol == "visbench")
        return "linear" if classic else task.default_probe
    if probe not in task.probes:
        known = ", ".join(task.probes) or "none: nothing is learnt"
        raise UsageError(
            f'{task.name} has no probe "{probe}".{did_you_mean(probe, task.probes)} Its probes: {known}.'
        )
    return probe
