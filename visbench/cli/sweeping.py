"""What `visbench sweep` does with its options: one sentence over the library, then the picture and the boards."""

from __future__ import annotations

from typing import Any

from extract.wording import counted
from visbench import console
from visbench.cli.options import the_data
from visbench.cli.running import boards_of, foretell, options_of, told
from visbench.errors import UsageError
from visbench.grid import parse_axis
from visbench.pipeline import Result
from visbench.sweeping import DRAWS, Sweep, label, open_session, sweep_options, with_trials


def sweep_task(task: str, *, as_json: bool, dry_run: bool, plot: str | None, **given: Any) -> None:
    """Sweep every backbone with every probe."""
    data = the_data(given.pop("data"), given.pop("data_option"))
    backbones, probes = list(dict.fromkeys(given.pop("backbones"))), given.pop("probes", ()) or (None,)
    shots, draws = given.pop("shots", None) or (), given.pop("draws", None)
    if draws is not None and not shots:
        raise UsageError("--draws counts draws of few shots; give --shots too, such as --shots 1,2,4,8")
    grid = dict(parsed := [parse_axis(text) for text in given.pop("axes")])
    if len(grid) < len(parsed):
        raise UsageError("an axis of the grid is given twice; name each --grid once")
    if plot is not None:
        from visbench.figures.sweep import check

        check(plot)
    options = options_of(given, make=sweep_options, grid=grid, draws=draws or (DRAWS if shots else 1))
    session = open_session(backbones, task, data, options, probes=probes, shots=shots)
    if dry_run:
        from visbench.forecast import of_run

        foretell(of_run(session), as_json)
        return
    results: list[Result] = []
    for result in session.run():
        results.append(result := with_trials(result, options.results))
        if as_json:
            console.result(result.record.to_json())
        else:
            _say_chosen(result)
    swept = Sweep(tuple(results))
    if not as_json:
        _show(swept, options.results)
    if plot is not None and not swept.trials:
        console.warn(f"nothing was chosen among, so {plot} is not drawn")
    elif plot is not None:
        swept.plot(plot)
        console.note(f"{counted(len(swept.trials), 'setting')} drawn to {plot}")
    told(session, results)


def _say_chosen(result: Result) -> None:
    record, outcome = result.record, result.record.selection.get("outcome", {})
    score, ends = record.metrics[str(record.headline)], record.intervals.get(str(record.headline))
    interval = f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else ""
    shots = f", {counted(record.task_params['shots'], 'shot')}" if "shots" in record.task_params else ""
    said = f"{label(record)}, {record.probe}{shots}"
    if outcome:
        chosen = ", ".join(f"{name} {_short(value)}" for name, value in outcome["chosen"].items())
        how = record.selection["how"].rpartition(" chosen on ")[2]
        said += f"  of {counted(outcome['trials'], 'setting')}, chosen on {how}: {chosen}"
    console.note(f"{said} → {record.split} {record.headline} {score:.3f}{interval}")


def _show(swept: Sweep, stored: Any) -> None:
    trials, axes = swept.trials, swept.axes
    if any(len(values) > 1 for values in axes.values()) and trials:
        from visbench.figures.terminal import text

        record, width = swept.results[0].record, console.width() or 100
        picture = text(
            trials,
            axes,
            metric=str(record.headline),
            better=record.better,
            width=width,
            styled=console.styled_out(),
        )
        console.result(f"{picture}\n")
    console.result(
        boards_of(list(swept.results), stored=stored, width=console.width(), styled=console.styled_out())
    )


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
