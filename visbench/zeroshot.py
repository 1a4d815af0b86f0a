"""Zero-shot classification: images beside the names of their classes, in the space that a model has for both.

Nothing is learnt from the images (Radford et al. 2021, arXiv:2103.00020).  Axes: n images, d dims, m texts, c classes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from extract import taps as tap_names
from extract import texts
from extract.plan import Plan
from extract.texts import TextSpec
from extract.wording import counted
from probes import zeroshot
from visbench import console, prompts, scoring
from visbench.data import RunData
from visbench.errors import UsageError
from visbench.options import Options
from visbench.outcome import Outcome, Rows
from visbench.prompts import Prompts
from visbench.reading import Pooled
from visbench.sources import Source
from visbench.trials import Trials

if TYPE_CHECKING:
    from visbench.pipeline import Session

_NUMBER = re.compile(r"n?\d+")  # also what ImageNet's folders are called: n01440764


@dataclass(frozen=True)
class Pictured:
    """What the measure reads: images, and the texts about their classes in the same space."""

    rows: Mapping[str, Rows]  # role → image embeddings and labels
    texts: np.ndarray  # (m, d) embeddings, class by class
    spec: TextSpec


class Described(Pooled):
    """Image embeddings with labels, and the embeddings of the texts about the classes.

    A backbone without a text tower is refused before an image is read, and so are features that texts cannot be
    compared with.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._specs = {id(source): _joint(source, session) for source in session.sources}
        for source in session.sources:  # two models may have one image tower and two text towers
            source.beside = {"text_weights": self._specs[id(source)].weights}
        self._say_unused()

    def prepare(self, source: Source) -> None:
        """See that every text is embedded."""
        session, spec, said = self._session, self._specs[id(source)], self._prompts.texts
        todo = len(texts.lacking(spec, said, session.store))
        if not todo:
            return
        if not session.options.extract:
            raise UsageError(
                f"{counted(todo, 'text')} about the classes of {session.data.name} "
                f"{'is' if todo == 1 else 'are'} not embedded by {source.asked} yet, and no features are to be "
                "computed; `visbench run` does"
            )
        assert source.request is not None
        with console.progress("embedding", source.asked, total=todo, unit="texts") as advance:
            texts.ensure(
                source.request,
                spec,
                said,
                store=session.store,
                device=session.options.device,
                progress=advance,
            )

    def __call__(self, source: Source, plan: Plan) -> Callable[[str], Any]:
        """Both at a tap."""
        images, spec = super().__call__(source, plan), self._specs[id(source)]
        embedded = texts.read(spec, self._prompts.texts, self._session.store)
        return lambda tap: Pictured(images(tap), embedded, spec)

    @property
    def _prompts(self) -> Prompts:
        (measure,) = self._session.measures
        made: Prompts = measure.prompts(self._session.data.classes)
        return made

    def _say_unused(self) -> None:
        if unused := self._prompts.unused:
            console.note(
                f"{counted(len(unused), 'class name')} (such as {unused[0]}) "
                f"{'is' if len(unused) == 1 else 'are'} of no class of {self._session.data.name} and not among "
                "the answers"
            )


def _joint(source: Source, session: Session) -> TextSpec:
    """The text tower of a backbone whose tap is the image embedding that texts are compared with."""
    name, spec = source.asked, source.spec
    request = texts.refuse_textless(source.request, name)
    found = texts.resolve(request, name, session.memo)  # refuses what --projection would not help
    if not (request.projection and request.norm):
        raise UsageError(
            f"texts lie in the space of the projected image embedding, and the features of {name} are "
            f"{'those before the projection' if request.norm else 'without the last norm'}; "
            f"{'add --projection' if request.norm else 'leave --no-norm out'}"
        )
    if found.image_weights != spec.weights:
        raise UsageError(f"the image tower of {name} is not the one beside its text tower; run it again")
    embedding = tap_names.resolve(found.image_pool, spec)
    for tap in session.taps:
        if tap_names.resolve(tap, spec) != embedding:
            raise UsageError(
                f"the image embedding of {name} is {embedding}, and {tap} was asked for; leave --pooling and --layer "
                "out"
            )
    return found


class ZeroshotProbe:
    """Names the class whose texts are nearest to an image, by cosine."""

    def __init__(
        self, *, seed: int = 0, pooling: str = "default", layers: tuple[int, ...] | None = None
    ) -> None:
        self.seed, self.pooling, self.layers = seed, pooling, layers
        self.class_embeddings_: np.ndarray | None = None
        self.classes_: np.ndarray | None = None

    def fit(self, embeddings: Any, classes: Any) -> Self:
        """Take (m, d) embeddings of texts and (m,) the class that each is about; no image is looked at."""
        self.classes_, owners = np.unique(np.asarray(classes), return_inverse=True)
        self.class_embeddings_ = zeroshot.class_embeddings(
            np.asarray(embeddings), owners.reshape(-1), num_classes=len(self.classes_)
        )
        return self

    def similarity(self, features: Any) -> np.ndarray:
        """(n, c) cosines of image embeddings and classes."""
        if self.class_embeddings_ is None:
            raise UsageError("the probe knows no class yet; give it texts with fit(embeddings, classes)")
        return zeroshot.similarity(np.asarray(features), self.class_embeddings_)

    def predict(self, features: Any) -> np.ndarray:
        """(n,) the nearest class."""
        nearest = self.similarity(features).argmax(1)
        assert self.classes_ is not None
        named: np.ndarray = self.classes_[nearest]
        return named

    def evaluate(self, features: Any, labels: Any) -> dict[str, Any]:
        """The metrics of (n, d) image embeddings and (n,) labels that the texts are about."""
        cosines = self.similarity(features)
        assert self.classes_ is not None
        labels = np.asarray(labels)
        if strange := sorted(set(labels.tolist()) - set(self.classes_.tolist())):
            raise UsageError(f"no text is about class {strange[0]}; give every class one")
        return self.score(cosines, self.classes_.searchsorted(labels)).metrics

    def score(self, cosines: np.ndarray, labels: np.ndarray) -> Outcome:
        """Accuracies with intervals, of (n, c) cosines.

        Beside them what always naming the commonest class would score (`chance`), and a guess (`uniform_chance`).
        """
        outcome = scoring.score([cosines], labels, seed=self.seed)
        outcome.context["uniform_chance"] = 1 / cosines.shape[1]
        return outcome


class Zeroshot:
    """The measurement as a run asks for it."""

    name = "zeroshot"

    def __init__(self, probe: str | None, options: Options) -> None:
        self._tap = options.tap
        settings = dict(options.probe_settings)
        self._names = prompts.read_names(settings.pop("class_names", None))
        self._templates = prompts.read_templates(settings.pop("templates", None))
        if settings or options.standardize:
            raise UsageError(
                f"zeroshot has no setting {', '.join(settings) or 'standardize'}; it has class_names and templates"
            )
        self.probe = ZeroshotProbe(seed=options.seed, pooling=options.pooling)

    @staticmethod
    def accepts(probe: str | None) -> set[str]:
        """The settings there are."""
        return {"class_names", "templates"}

    @property
    def taps(self) -> list[str]:
        """The tap it reads, as asked."""
        return [self._tap]

    def prompts(self, classes: Sequence[str]) -> Prompts:
        """The texts about `classes`."""
        return prompts.make(classes, self._names, self._templates)

    def plan(self, run: RunData) -> dict[str, Any]:
        """What of the record is known before."""
        return {"task_params": self.prompts(run.classes).describe()}

    def __call__(self, read: Callable[[str], Pictured], run: RunData, trials: Trials) -> Outcome:
        """Name the class of every image of the scored split."""
        found, said = read(self._tap), self.prompts(run.classes)
        self.probe.fit(found.texts, said.classes)
        test = found.rows["test"]
        outcome = self.probe.score(self.probe.similarity(test.features), test.labels)
        self.probe.classes_ = np.array(run.classes)
        outcome.probe = self.probe
        outcome.context |= {
            "texts": len(said.texts),
            "text_random_params": found.spec.random_params,
        }
        numbered = [] if said.told else [each for each in run.classes if _NUMBER.fullmatch(each)]
        if numbered:
            have = "has" if len(numbered) == 1 else "have"
            outcome.warnings.append(
                f"{counted(len(numbered), 'class')} (such as {numbered[0]}) {have} a number for a name, which says "
                "little to a model; --class-names tells what they are called"
            )
        if found.spec.random_params:
            outcome.warnings.append(
                f"{counted(found.spec.random_params, 'parameter')} of the text tower are random"
            )
        return outcome
