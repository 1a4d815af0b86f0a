"""What `visbench compare` says, on a page and as a command."""

from __future__ import annotations

import numpy as np
from click.testing import CliRunner

import visbench
from visbench import compare_text, results
from visbench.cli.app import app
from visbench.comparing import compare
from visbench.record import run_key

N = 300


def test_the_text(add, path, hits):
    for name, share in (("one", 0.90), ("two (x|y)", 0.60)):
        add(name, hits(share))
    found = compare("one", "two (x|y)", path)
    a, b = (f"{each.mean():.3f}" for each in (hits(0.9), hits(0.6)))
    key = {record.backbone: run_key(record)[:8] for record in results.read(path)}
    low, high = found[0].low, found[0].high
    assert compare_text.text(found).split("\n") == [
        "photos · classification · logistic",
        "        backbone     top1  95 % interval    p       record",
        f" A      one         {a}                           {key['one']}",
        f" B      two (x|y)   {b}                           {key['two (x|y)']}",
        f" A − B             +{found[0].difference:.3f}  +{low:.3f} … +{high:.3f}  <0.001",
        " one is better · 300 paired samples · paired bootstrap, 10,000 resamples",
    ]
    assert f"\x1b[1m {a}\x1b[0m" in compare_text.text(found, styled=True)
    assert max(map(len, compare_text.text(found, width=50).split("\n")[5:])) <= 50


def test_a_vanishing_difference_has_no_sign(add, path):
    scores = np.linspace(0, 1, N)
    add("one", scores)
    add("two", scores + 1e-6 * np.sign(np.random.default_rng(0).standard_normal(N)))
    said = compare_text.text(compare("one", "two", path))
    assert " 0.000  0.000 … 0.000" in said


def call(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


def test_the_command(add, path, monkeypatch, tmp_path, hits):
    import json

    add("one", hits(0.9), file="results/visbench.jsonl")
    add("two", hits(0.6), file="results/visbench.jsonl")
    monkeypatch.chdir(tmp_path)
    done = call("compare", "one", "two")
    assert "one is better · 300 paired samples" in done.stdout
    (found,) = json.loads(
        call("compare", "one", "two", "--json", "--test", "permutation", "--seed", "4").stdout
    )
    assert (found["verdict"], found["test"], found["seed"], found["separable"]) == (
        "one is better",
        "permutation",
        4,
        True,
    )
    (same,) = visbench.compare("one", "two", "results/visbench.jsonl", test="permutation", seed=4)
    assert json.loads(json.dumps(same.to_dict())) == found
    assert "not separable" in call("compare", "one", "one").stdout
    refused = call("compare", "one", "three", code=2)
    assert refused.stderr.startswith('error: there is no "three" in results/visbench.jsonl.')
    assert (
        "no results at nowhere.jsonl"
        in call("compare", "one", "two", "--results", "nowhere.jsonl", code=2).stderr
    )
    files = call("compare", "results/visbench.jsonl", "results/visbench.jsonl")
    assert files.stdout.count("not separable") == 2


def test_comparing_starts_neither_torch_nor_jax():
    import subprocess
    import sys

    ask = (
        "import visbench.compare_text, visbench.cli.compare, sys; print({'torch', 'jax'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
