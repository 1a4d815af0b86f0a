import threading

import pytest

from visbench import console


@pytest.fixture(autouse=True)
def _usual_loudness():
    console.reset()
    yield
    console.reset()


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved."""
    hands = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: hands[0])
    return hands


def test_results_on_stdout_all_else_on_stderr(capsys):
    console.result("0.9")
    console.note("by the way")
    console.detail("unasked")
    console.warn("careful")
    console.error("no")
    said = capsys.readouterr()
    assert said.out == "0.9\n"
    assert said.err == "by the way\nwarning: careful\nerror: no\n"


def test_quiet_and_verbose(capsys):
    console.verbosity.quiet = console.verbosity.verbose = True
    console.note("by the way")
    console.detail("asked for")
    console.warn("careful")
    with console.progress("extracting", total=2) as advance:
        advance(2)
    assert capsys.readouterr().err == "asked for\nwarning: careful\n"


def test_plain_lines_at_most_every_few_seconds(capsys, clock):
    with console.progress("extracting", "resnet50", total=600) as advance:
        for _ in range(5):
            clock[0] += 2
            advance(100)
        clock[0] += 2
        advance(100)
    assert capsys.readouterr().err.splitlines() == [
        "extracting  resnet50  600 images  300 done  50 images/s  0:00:06 left",
        "extracting  resnet50  600 images  50 images/s  done in 0:00:12",
    ]


def test_a_stage_that_fails_is_not_called_done(capsys):
    with pytest.raises(RuntimeError), console.progress("extracting", total=2):
        raise RuntimeError
    assert "done" not in capsys.readouterr().err


def test_a_terminal_gets_one_line_with_a_bar(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with console.progress("fitting", "a[b]c", total=3, unit="fits") as advance:
        advance(3)
    said = capsys.readouterr()
    assert said.out == ""
    assert "fitting  a[b]c  3 fits" in said.err
    assert "━" in said.err
    assert "fits/s" in said.err


def test_threads_may_advance(capsys):
    pace = console._Pace(8000, "images")
    threads = [threading.Thread(target=lambda: [pace.add(1) for _ in range(1000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pace.done == 8000


class Stream:
    def __init__(self, terminal):
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "settings", "styled"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),  # set but empty does not count
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_no_color_is_respected(monkeypatch, terminal, settings, styled):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert console.styled(Stream(terminal)) is styled


def test_amounts_for_people():
    sizes = [console.size(n) for n in (0, 812, 9_000_000, 41_240_000_000, 999_600, 2e18)]
    assert sizes == ["0 bytes", "812 bytes", "9 MB", "41.2 GB", "1 MB", "2,000 PB"]
    assert [console.duration(s) for s in (0.021, 1.94, 45, 59.7, 360, 7500)] == [
        "0.021 s", "1.9 s", "45 s", "1 min", "6 min", "2 h 5 min",
    ]  # fmt: skip
    assert [console.clock(s) for s in (0, 69, 3725)] == ["0:00:00", "0:01:09", "1:02:05"]
