"""`visbench probe TASK DATA`: what `run` does, on stored features only."""

from __future__ import annotations

import click

from visbench.cli.common import Group
from visbench.cli.run import task_command
from visbench.tasks import TASKS


@click.group(cls=Group, noun="task", listing="visbench list tasks")
def probe() -> None:
    """Probe features that are stored; what is not stored is refused, and PyTorch is never started.

    \b
    visbench extract photos/ --backbone dinov2_vits14
    visbench probe classification photos/ --backbone dinov2_vits14
    """


for _task in TASKS.values():
    probe.add_command(task_command(_task, probe_only=True))
