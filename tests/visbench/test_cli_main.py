import json
import os
import signal
import subprocess
import sys
import time
import types
import warnings
from importlib.util import find_spec

import click
import pytest
from click.testing import CliRunner

import extract.errors
import probes.errors
from visbench import console, tasks
from visbench.cli import info
from visbench.cli.app import COMMANDS, app
from visbench.cli.common import Command, Group
from visbench.cli.lazy import Lazy
from visbench.errors import UsageError, did_you_mean


def run(*arguments, **options):
    return CliRunner().invoke(app, arguments, **options)


@pytest.fixture
def install(monkeypatch):
    """Make a command, or a function, be `visbench try`."""

    def install(made):
        if not isinstance(made, click.Command):
            made = click.command(cls=Command)(made)
        module = types.ModuleType("visbench_try")
        module.made = made
        monkeypatch.setitem(sys.modules, "visbench_try", module)
        monkeypatch.setitem(COMMANDS, "try", Lazy("visbench_try", "made", "Try."))

    return install


def fresh(code, **options):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **options)


def test_help_imports_nothing_heavy():
    code = """
import sys
from visbench.cli import main
try:
    main(["--help"])
except SystemExit as done:
    assert done.code == 0, done.code
heavy = {"torch", "jax", "numpy", "rich", "tensorstore", "PIL", "visbench.tasks", "visbench.cli.cache"}
print(heavy & set(sys.modules), file=sys.stderr)
"""
    done = fresh(code)
    assert done.stderr.strip() == "set()"
    for name, entry in COMMANDS.items():
        assert f"{name} " in done.stdout
        assert entry.summary in done.stdout


def test_importing_visbench_starts_nothing():
    assert fresh("import visbench, sys; print({'torch', 'jax'} & set(sys.modules))").stdout.strip() == "set()"


def commands(group, path):
    for name in group.list_commands(click.Context(group)):
        entry = getattr(group, "table", {}).get(name)
        if entry is not None and find_spec(entry.module) is None:
            continue  # test_every_command_exists says so
        command = group.get_command(click.Context(group), name)
        yield [*path, name], command
        if isinstance(command, click.Group):
            yield from commands(command, [*path, name])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_exists(name):
    if find_spec(COMMANDS[name].module) is None:
        pytest.skip("not written yet")
    command = app.get_command(click.Context(app), name)
    assert isinstance(command, click.Command)
    assert command.name == name


def test_every_command_has_a_sentence_and_an_example_and_the_shared_options():
    for path, command in commands(app, []):
        said = run(*path, "--help").stdout
        assert (command.help or "").split("\n")[0].strip().endswith("."), path
        assert f"  visbench {' '.join(path)}" in said, path
        assert "-q, --quiet" in said, path


@pytest.mark.parametrize(
    "arguments",
    [
        ["-q", "--debug", "try"],
        ["try", "-q", "--debug"],
        ["-q", "try", "--debug"],
        ["--debug", "try", "--quiet"],
    ],
)
def test_loudness_is_taken_before_and_after_the_command(install, arguments):
    install(
        lambda: console.result(
            f"{console.verbosity.quiet} {console.verbosity.verbose} {console.verbosity.debug}"
        )
    )
    assert run(*arguments).stdout == "True False True\n"
    assert run("try", "-v").stdout == "False True False\n"  # nothing lingers from the call before


def test_loudness_within_a_group(install):
    @click.group(cls=Group)
    def nested():
        pass

    @nested.command()
    def inner():
        console.result(str(console.verbosity.quiet))

    install(nested)
    for arguments in (["-q", "try", "inner"], ["try", "-q", "inner"], ["try", "inner", "-q"]):
        assert run(*arguments).stdout == "True\n"


@pytest.mark.parametrize("kind", [UsageError, extract.errors.MissingExtraError, probes.errors.InputError])
def test_what_is_wrong_with_the_input_is_one_sentence(install, kind):
    def fail():
        raise kind("a.jpg is truncated; mend it")

    install(fail)
    done = run("try")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", "error: a.jpg is truncated; mend it\n")
    done = run("try", "--debug")
    assert done.exit_code == 2
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("error: a.jpg is truncated; mend it\n")


def test_what_nobody_foresaw_keeps_its_traceback(install):
    def fail():
        raise ZeroDivisionError

    install(fail)
    assert isinstance(run("try").exception, ZeroDivisionError)


def test_a_full_disk_is_one_sentence(install):
    def fail():
        raise OSError(28, "No space left on device", "/store/part")

    install(fail)
    done = run("try")
    assert (done.exit_code, done.stderr) == (1, "error: /store/part: No space left on device\n")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to …")]
)
def test_too_little_memory_is_one_sentence(install, error):
    def fail():
        raise error

    install(fail)
    done = run("try")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: there is not enough memory for this; a smaller --image-size")


def test_wrong_words_get_the_nearest_right_one():
    done = run("lst")
    assert (done.exit_code, done.stdout) == (2, "")
    assert (
        done.stderr == 'error: there is no command "lst". Did you mean "list"? `visbench --help` names all.\n'
    )
    assert run("zzzzz").stderr == 'error: there is no command "zzzzz". `visbench --help` names all.\n'
    assert run("cache", "verfy").stderr.startswith(
        'error: there is no command "verfy". Did you mean "verify"?'
    )
    assert did_you_mean("Clasification", ["classification", "knn"]) == ' Did you mean "classification"?'
    assert did_you_mean("xyz", ["classification"]) == ""


def test_a_group_may_say_what_its_commands_are(install):
    install(
        Group("try", noun="task", listing="visbench list tasks", commands=[click.Command("classification")])
    )
    assert run("try", "clasification").stderr == (
        'error: there is no task "clasification". Did you mean "classification"? `visbench list tasks` names all.\n'
    )


def test_wrong_options_are_one_line():
    done = run("list", "--jsn")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: no such option '--jsn'. Did you mean '--json'?")
    assert done.stderr.endswith("`visbench list --help` shows what it takes.\n")
    done = run("list", "tusks")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1


def test_without_a_command_the_help_is_shown():
    done = run()
    assert done.exit_code == 2
    assert "Commands:" in done.stderr


def test_version():
    assert run("--version").stdout.startswith("visbench 0.")


def test_warnings_are_one_line(install):
    def warn():
        warnings.warn("line 3 is left out", stacklevel=1)

    install(warn)
    assert run("try").stderr == "warning: line 3 is left out\n"
    assert __file__ in run("try", "--debug").stderr


def test_declining_is_no_success(install):
    install(lambda: click.confirm("Remove?", abort=True))
    done = run("try", input="n\n")
    assert done.exit_code == 1
    assert "error: not confirmed; nothing was changed" in done.stderr


SLEEPER = """
import time, click
from visbench.cli.common import Command

@click.command(cls=Command)
def sleep():
    try:
        print("asleep", flush=True)
        time.sleep(30)
    finally:
        print("flushed", flush=True)
"""
START = """
from visbench.cli.app import COMMANDS, app
from visbench.cli.lazy import Lazy
COMMANDS["sleep"] = Lazy("sleeper", "sleep", "")
app.main(["sleep"])
"""


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_signals_flush_and_tell(tmp_path, number, code, said):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    process = subprocess.Popen(
        [sys.executable, "-c", START],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert process.stdout.readline() == "asleep\n"
    time.sleep(0.05)  # into the sleep
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (code, "flushed\n")
    assert f"error: {said}; the same command goes on from what is stored" in err
    assert "Traceback" not in err


def test_a_reader_that_leaves_is_no_error():
    code = "from visbench.cli import main; main(['list', 'tasks'])"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=20) == 1


@pytest.fixture
def tables(monkeypatch):
    task = tasks.Task(
        name="naming", level="high", summary="Names.", reads="", layout="", measure="", probes={"ridge": "squares"},
        headline="top1", metrics={"top1": "higher"},
    )  # fmt: skip
    monkeypatch.setattr(tasks, "TASKS", {"naming": task})
    monkeypatch.setitem(info.TOPICS, "backbones", lambda: [{"alias": "a", "family": "F", "name": "timm:a"}])


@pytest.mark.usefixtures("tables")
def test_list():
    everything = run("list").stdout
    for word in ("backbones", "probes", "heads", "tasks", "naming", "squares", "timm:a"):
        assert word in everything
    assert run("list", "tasks").stdout.splitlines() == [
        " task    level  headline  probes  summary",
        " naming  high   top1      ridge   Names.",
    ]
    assert [line.split()[0] for line in run("list", "heads").stdout.splitlines()[1:]] == [
        "linear",
        "conv_block",
        "fpn",
        "dpt",
    ]


@pytest.mark.usefixtures("tables")
def test_list_as_json():
    assert json.loads(run("list", "probes", "--json").stdout) == [
        {"probe": "ridge", "task": "naming", "summary": "squares"}
    ]
    done = run("list", "--json", "-q")
    assert set(json.loads(done.stdout)) == {"backbones", "probes", "heads", "tasks"}
    assert done.stderr == ""


def test_list_backbones_needs_no_torch():
    code = """
import sys
from visbench.cli import main
try:
    main(["list", "backbones"])
except SystemExit:
    print({"torch", "jax"} & set(sys.modules), file=sys.stderr)
"""
    done = fresh(code)
    assert "dinov2_vits14 " in done.stdout
    assert done.stderr.splitlines()[-1] == "set()"


def test_nobody_may_be_there_to_read():
    command = f"{sys.executable} -m visbench list tasks >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
