"""Digests of code change with what the code does, and of weights with their values."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch

from extract.digests import code_token, module_token, weights_digest

FACTOR = 2


def scaled(by: float) -> Callable[[float], float]:
    return lambda value: value * by


def by_default(value: float, by: float = 3.0) -> float:
    return value * by


def by_global(value: float) -> float:
    return value * FACTOR


class Scale:
    power = 1

    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, value: float) -> float:
        return (value * self.by) ** self.power


def test_closures_settings_and_attributes_count() -> None:
    things = [scaled(1), scaled(2), Scale(1), Scale(2), by_default, functools.partial(by_default, by=4.0)]
    assert len({code_token(thing) for thing in things}) == len(things)
    assert code_token(scaled(2)) == code_token(scaled(2))
    assert code_token(Scale(2)) == code_token(Scale(2))


def test_a_changed_global_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = code_token(by_global)
    monkeypatch.setitem(by_global.__globals__, "FACTOR", 3)
    assert code_token(by_global) != before


def test_a_changed_class_attribute_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = code_token(Scale(1))
    monkeypatch.setattr(Scale, "power", 2)
    assert code_token(Scale(1)) != before


def test_what_hides_its_state_has_no_token() -> None:
    assert code_token(functools.partial(scaled, iter([1]))) is None


def test_recursion_ends() -> None:
    def countdown(n: int) -> int:
        return n and countdown(n - 1)

    assert code_token(countdown)


def test_a_module_is_known_by_its_settings_and_code() -> None:
    class Doubled(torch.nn.Linear):
        factor = 2.0

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return super().forward(images) * self.factor

    one, other = Doubled(3, 3), Doubled(3, 3)
    assert module_token(one) == module_token(other)  # weights are digested apart
    other.factor = 3.0
    assert module_token(one) != module_token(other)
    assert module_token(torch.nn.ReLU()) != module_token(torch.nn.GELU())
    assert module_token(torch.nn.Conv2d(3, 3, 3)) != module_token(torch.nn.Conv2d(3, 3, 3, stride=2))
    assert module_token(one) != module_token(one, scaled(1))


def test_weights_count_by_name_type_shape_and_value() -> None:
    plain = {"a": torch.arange(6.0), "b": torch.tensor(1)}
    changed = [
        {"a": plain["a"], "c": plain["b"]},
        {"a": plain["a"].double(), "b": plain["b"]},
        {"a": plain["a"].view(2, 3), "b": plain["b"]},
        {"a": plain["a"] + 1e-6, "b": plain["b"]},
    ]
    assert len({weights_digest(state) for state in [plain, *changed]}) == 5
    assert weights_digest(dict(reversed(plain.items()))) == weights_digest(plain)
    assert weights_digest({"a": plain["a"].repeat(2)[::2][:6], "b": plain["b"]}) != weights_digest(plain)
    assert weights_digest({"a": torch.zeros(4).bfloat16()}) != weights_digest({"a": torch.zeros(4).half()})
