"""The search: every setting once, what is known is not measured again, edges widen, divergence never wins."""

import json
import math

import numpy as np
import pytest

from visbench.errors import UsageError
from visbench.grid import Grid
from visbench.journal import Journal, journal_path
from visbench.record import Record
from visbench.searching import Arm, Search


class Counting:
    """A measure whose best score lies at C = 10 and layer 2; in groups of three."""

    def __init__(self, stop_after=None):
        self.asked, self.stop_after = [], stop_after

    def __call__(self, arm, settings, replicate):
        for first in range(0, len(settings), 3):
            if self.stop_after is not None and len(self.asked) >= self.stop_after:
                raise KeyboardInterrupt
            group = settings[first : first + 3]
            self.asked += [(arm.place["layer"], setting["C"], replicate) for setting in group]
            scores = [-abs(math.log10(setting["C"]) - 1) - abs(arm.place["layer"] - 2) for setting in group]
            yield np.arange(first, first + len(group)), np.array(scores) + 0.01 * replicate[1]


def arms(values=(0.1, 1.0, 10.0, 100.0, 1000.0), **how):
    return [Arm({"layer": layer}, Grid({"C": values}), **how) for layer in (1, 2, 3)]


def test_the_best_setting_of_the_best_arm_is_found_and_every_trial_told():
    heard = []
    found = Search(Counting(), [(0, 0), (0, 1)], advance=heard.append).run(arms())
    assert found.chosen == {"C": 10.0}
    assert found.table.arm.place == {"layer": 2}
    assert found.score == pytest.approx(0.005)
    assert sum(heard) == 30
    rows = found.rows()
    assert len(rows) == 15
    assert [row for row in rows if row["chosen"]] == [
        {"layer": 2, "C": 10.0, "score": found.score, "std": pytest.approx(0.01 / 2**0.5), "chosen": True}
    ]


def test_a_stopped_search_goes_on_where_it_was(tmp_path):
    path = tmp_path / "a.jsonl"
    with pytest.raises(KeyboardInterrupt):
        Search(Counting(stop_after=8), [(0, 0)], Journal(path)).run(arms())
    with path.open("a") as file:
        file.write('{"where": {"layer": 3, "repl')  # what kill -9 leaves
    rest, whole = Counting(), Counting()
    found = Search(rest, [(0, 0)], Journal(path)).run(arms())
    plain = Search(whole, [(0, 0)]).run(arms())
    assert found.rows() == plain.rows()
    assert len(rest.asked) == 15 - 8
    again = Counting()
    Search(again, [(0, 0)], Journal(path)).run(arms())
    assert again.asked == []


def test_groups_that_start_from_one_another_are_taken_up_whole(tmp_path):
    path = tmp_path / "a.jsonl"
    with pytest.raises(KeyboardInterrupt):
        Search(Counting(stop_after=8), [(0, 0)], Journal(path)).run(arms(chained=True))
    rest = Counting()
    Search(rest, [(0, 0)], Journal(path)).run(arms(chained=True))
    assert len(rest.asked) == 10  # the first arm is whole, the second was begun


def test_an_edge_widens_until_the_best_is_inside():
    narrow = Search(Counting(), [(0, 0)]).run(arms((0.001, 0.01)))
    assert narrow.table.edges == ["C"]
    wide = Search(Counting(), [(0, 0)]).run(arms((0.001, 0.01)), widen=True)
    assert wide.chosen["C"] == pytest.approx(10)
    assert wide.table.edges == []
    assert [len(table.arm.grid) for table in wide.tables] == [2, 6, 2]


def test_what_diverged_is_never_chosen(tmp_path):
    def measure(arm, settings, replicate):
        yield np.arange(3), np.array([np.nan, 0.2, np.nan])

    journal = Journal(tmp_path / "a.jsonl")
    found = Search(measure, [(0, 0)], journal).run([Arm({}, Grid({"C": (1.0, 2.0, 3.0)}))])
    assert found.chosen == {"C": 2.0}
    for line in (tmp_path / "a.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)
    assert math.isnan(Journal(tmp_path / "a.jsonl").get({"replicate": (0, 0)}, {"C": 1.0}))


def test_a_journal_lies_beside_its_results(tmp_path):
    record = Record(task="t", dataset="d", backbone="b")
    assert journal_path(tmp_path / "a.csv", record).parent == tmp_path / "a.sweeps"


def test_a_journal_that_cannot_be_written_is_named_with_the_way_out(tmp_path):
    (tmp_path / "a.sweeps").touch()
    journal = Journal(tmp_path / "a.sweeps" / "key.jsonl")
    with pytest.raises(UsageError, match=r"kept in .*key\.jsonl: .*; mend that and repeat"):
        journal.add({"replicate": (0, 0)}, [{"C": 1.0}], [0.5])


def test_a_journal_tells_its_trials_as_the_search_did(tmp_path):
    path = tmp_path / "a.sweeps" / "key.jsonl"
    found = Search(Counting(), [(0, 0), (0, 1)], Journal(path)).run(arms())
    told = Journal(path).trials({**found.table.arm.place, **found.chosen})
    assert told == found.rows()
