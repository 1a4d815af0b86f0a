"""How a dense task reads what a run has stored: streams of feature grids with target maps beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from extract import taps as tap_names
from extract.datasets.targets import Targets
from extract.maps.frame import Frame
from extract.plan import Plan
from visbench import console
from visbench.dense import targets
from visbench.dense.kinds import KINDS
from visbench.dense.streams import Stream
from visbench.errors import UsageError
from visbench.frames import frame_side
from visbench.opening import refuse_unreadable
from visbench.reading import shuffled
from visbench.sources import Source

AT_ONCE = 64  # maps looked at together
LOOKED_AT, FAR = 8, 0.01  # maps that tell of depth beyond the limit, and the share that is worth a word

if TYPE_CHECKING:
    from visbench.pipeline import Session


class Mapped:
    """Grids of features and maps of targets, in one order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._told = False

    def prepare(self, source: Source) -> None:
        """Read the target maps that are not stored yet: what is wrong with one shows before anything is extracted."""
        unreadable: dict[str, str] = {}
        session = self._session
        sets = list(session.data.sets.values())
        identity = targets.ensure(sets, self._frame(source), session.options, session.store, unreadable)
        refuse_unreadable(unreadable, session.options)
        if unreadable:
            session.data.drop(unreadable)
        for role in session.data.sets:
            self._refuse_void(role, identity)
        if not self._told:
            tell_of_far(self._targets("test"))
            self._told = True

    def views(self, source: Source, measures: Sequence[Any]) -> None:
        """No image but those of the data."""

    def _refuse_void(self, role: str, identity: str) -> None:
        """Refuse maps none of which says anything: there is nothing to learn from, or nothing to score."""
        found, targets = self._truth(role, None), self._targets(role)
        void = KINDS[targets.reader.kind].void
        for start in range(0, len(found), AT_ONCE):
            maps = self._session.store.view(identity, found[start : start + AT_ONCE]).read()
            if (maps != void).any():
                return
        images = self._session.data.sets[role]
        split = f"the {images.split} split of " if images.split else ""
        raise UsageError(
            f"no map of {split}{images.name} has a pixel that says something, so there is nothing to "
            f"{'score' if role == 'test' else 'learn from'}; `visbench check --task` shows how much of the maps is void"
            f"{_limit(targets)}"
        )

    def __call__(self, source: Source, plan: Plan) -> Callable[[Sequence[str], Sequence[str]], Stream]:
        """The images of some roles, one behind the other, at some taps."""
        session, identity = self._session, targets.identity(self._targets("test"), self._frame(source)).digest

        def stream(roles: Sequence[str], taps: Sequence[str]) -> Stream:
            ids = np.concatenate([session.data.ids[role] for role in roles])
            truth = np.concatenate([self._truth(role, source) for role in roles])
            resolved = [tap_names.resolve(tap, plan.spec) for tap in taps]
            views = {tap: session.store.view(plan.identities[tap].digest, ids) for tap in resolved}
            maps = [(self._targets(role), row) for role in roles for row in range(len(self._targets(role)))]
            return Stream(
                [views[tap] for tap in resolved if not tap.pooled],
                [views[tap] for tap in resolved if tap.pooled],
                session.store.view(identity, truth),
                KINDS[self._targets("test").reader.kind],
                name=source.asked,
                frame=self._frame(source),
                original=lambda row: maps[row][0].read(maps[row][1]),
            )

        return stream

    def _frame(self, source: Source) -> Frame:
        sampling = "left" if self._session.options.protocol == "visbench" else "centre"
        return Frame(frame_side(source), sampling)

    def _truth(self, role: str, source: Source | None) -> np.ndarray:
        ids = self._targets(role).ids
        assert ids is not None
        if source is not None and source.shuffled and role != "test":
            ids = ids[shuffled(self._session.data.ids[role], self._session.options.seed)]
        return ids

    def _targets(self, role: str) -> Targets:
        return self._session.data.sets[role].maps


def tell_of_far(targets: Targets) -> None:
    """Warn of depth beyond what is scored, by the first few maps."""
    reader: Any = targets.reader
    limit = getattr(reader, "max_depth", None)
    if limit is None:
        return
    near, every = (
        sum(
            int((replace(targets, reader=each).read(row) > 0).sum())
            for row in range(min(LOOKED_AT, len(targets)))
        )
        for each in (reader, replace(reader, max_depth=None))
    )
    if every and 1 - near / every > FAR:
        console.warn(
            f"{1 - near / every:.0%} of the depth in the first scored maps lies beyond {limit:g} m and is not scored; "
            "--max-depth says how far it is, --target-scale how many stored units make a metre"
        )


def _limit(targets: Targets) -> str:
    limit = getattr(targets.reader, "max_depth", None)
    return "" if limit is None else f"; depth beyond {limit:g} m says nothing (--max-depth, --target-scale)"
