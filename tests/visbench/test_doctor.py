import json
import sys

import pytest
from click.testing import CliRunner

from visbench import doctor
from visbench.cli.app import app


@pytest.fixture
def no_frameworks(monkeypatch):
    monkeypatch.setattr(doctor, "torch_devices", lambda: "cpu, 2 threads")
    monkeypatch.setattr(doctor, "jax_devices", lambda: "cpu: cpu")


def found(name):
    return next(finding for finding in doctor.our_packages() if finding.name == name)


def test_our_packages_are_ours():
    assert [finding.name for finding in doctor.our_packages() if not finding.broken] == [
        "visbench",
        "extract",
        "probes",
    ]


def test_a_foreign_package_in_front_of_ours_is_found(tmp_path, monkeypatch):
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes" / "__init__.py").write_text("raise SystemExit('never imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "probes", raising=False)
    finding = found("probes")
    assert finding.broken
    assert str(tmp_path / "probes") in finding.found
    assert "pip uninstall probes" in finding.advice


def test_a_foreign_distribution_that_wrote_into_ours_is_found(monkeypatch):
    owners = {"extract": ["visbench", "extract-anything"]}
    monkeypatch.setattr(doctor.metadata, "packages_distributions", lambda: owners)
    finding = found("extract")
    assert finding.broken
    assert "extract-anything" in finding.found
    assert finding.advice.startswith("pip uninstall extract-anything")


def test_a_missing_package(monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert found("extract").broken


def test_versions_are_compared_with_what_is_asked_for(monkeypatch):
    asked = [
        "torch>=2.9,<3",
        "jax>=0.7",
        "nothing-of-the-kind",
        "pyarrow>=17; extra == 'tables'",
        "visbench[x]; extra == 'x'",
    ]
    versions = {"torch": "2.14.1+cpu", "jax": "0.4.1"}
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: asked)
    monkeypatch.setattr(doctor, "_version", versions.get)
    by_name = {finding.name: finding for finding in doctor.requirements()}
    assert not by_name["torch"].broken
    assert by_name["torch"].found == "2.14.1+cpu"
    assert by_name["jax"].broken
    assert by_name["jax"].found == "0.4.1, wanted >=0.7"
    assert by_name["nothing-of-the-kind"].found.startswith("missing")
    assert not by_name["tables"].broken  # an extra is optional
    assert by_name["tables"].found == "not installed: pyarrow"
    assert '".[tables]"' in by_name["tables"].advice


def test_a_framework_that_does_not_start():
    def ask():
        raise OSError("libcudart.so: cannot open\nmore")

    finding = doctor.device("torch", ask)
    assert finding.broken
    assert finding.found == "does not start: OSError: libcudart.so: cannot open"


def test_a_container_limits_the_machine(monkeypatch):
    limits = {"cpu.max": "150000 100000", "memory.max": "2000000000"}
    monkeypatch.setattr(doctor, "_cgroup", limits.__getitem__)
    cores, memory = doctor.machine()
    assert "limited to 1.5" in cores.found
    assert "limited to 2 GB" in memory.found
    monkeypatch.setattr(doctor, "_cgroup", lambda name: "max 100000" if name == "cpu.max" else "")
    assert all("limited" not in finding.found for finding in doctor.machine())


def test_places_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv("VISBENCH_CACHE", str(tmp_path / "cache"))
    store, memo = doctor.places(str(tmp_path / "store"))
    assert (store.broken, memo.broken) == (False, False)
    assert " free" in store.found
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(doctor, "_writable", lambda folder: False)
    assert all(finding.broken for finding in doctor.places(str(tmp_path / "store")))


@pytest.mark.usefixtures("no_frameworks")
def test_the_command_tells_by_its_exit_code(tmp_path, monkeypatch):
    arguments = ["doctor", "--store", str(tmp_path / "store"), "--json"]
    done = CliRunner().invoke(app, arguments)
    findings = json.loads(done.stdout)
    assert done.exit_code == int(any(each["broken"] for each in findings))
    assert {"python", "package", "extra", "device", "machine", "place"} == {
        each["topic"] for each in findings
    }
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    done = CliRunner().invoke(app, arguments[:-1])
    assert done.exit_code == 1
    assert "BROKEN" in done.stdout
    assert f"error: extract: {doctor.INSTALL}" in done.stderr
