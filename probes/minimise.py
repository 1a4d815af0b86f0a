"""L-BFGS for smooth convex functions, written for one problem and meant to be vmapped over many.

One pass of the loop is one evaluation. A problem whose step was refused shortens it and tries again while
its neighbours go on, so a stack of problems waits for nobody's line search and stays one wide computation.

Two-loop recursion: Nocedal & Wright, Numerical Optimization, algorithms 7.4 and 7.5. The test that still
works where differences of values drown in rounding: Hager & Zhang (SIAM J. Optim. 2005), "approximate Wolfe".
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

T = TypeVar("T")
ARMIJO = 1e-4
SHORTEST = 1e-6  # a step refused down to this share of itself will not succeed in this precision


class Pair(NamedTuple):
    """A step that was taken, and what the gradient changed along it; all zeros where there was none yet."""

    step: Float[Array, "*shape"]
    change: Float[Array, "*shape"]
    inverse: Float[Array, ""]  # 1 / <step, change>


class Minimum(NamedTuple):
    """Where the search ended. `norm` is the gradient's, in the metric of `diagonal`."""

    point: Float[Array, "*shape"]
    value: Float[Array, ""]
    norm: Float[Array, ""]
    converged: Bool[Array, ""]
    steps: Int[Array, ""]  # evaluations


class _State(NamedTuple):
    point: Array
    value: Array
    gradient: Array
    direction: Array
    length: Array
    history: tuple[Pair, ...]  # newest first
    norm: Array
    steps: Array


def minimise(
    value_and_grad: Callable[[Array], tuple[Array, Array]],
    start: Float[Array, "*shape"],
    *,
    diagonal: Float[Array, "*metric"],
    goal: Float[Array, ""],
    max_steps: int,
    memory: int = 10,
) -> Minimum:
    """Go downhill from `start` until the gradient's norm is at most `goal`.

    `diagonal` approximates the inverse Hessian: it scales the first step and every later one, and the norm
    is sqrt(<gradient, diagonal * gradient>), whose half square estimates how far the value is from its minimum.
    """
    empty = Pair(jnp.zeros_like(start), jnp.zeros_like(start), jnp.zeros((), start.dtype))
    noise = 10 * jnp.finfo(start.dtype).eps
    infinite = jnp.full((), jnp.inf, start.dtype)

    def go_on(state: _State) -> Array:
        return (state.norm > goal) & (state.length > SHORTEST) & (state.steps < max_steps)

    def advance(state: _State) -> _State:
        trial = state.point + state.length * state.direction
        value, gradient = value_and_grad(trial)
        slope, slope_there = jnp.vdot(state.direction, state.gradient), jnp.vdot(state.direction, gradient)
        lower = value <= state.value + ARMIJO * state.length * slope
        level = value <= state.value + noise * jnp.abs(state.value)
        taken = lower | (level & (slope_there <= (2 * ARMIJO - 1) * slope))

        pair = _pair(trial - state.point, gradient - state.gradient)
        history = _where(taken & (pair.inverse > 0), (pair, *state.history[:-1]), state.history)
        point, value, gradient = _where(
            taken, (trial, value, gradient), (state.point, state.value, state.gradient)
        )
        shorter = state.length * jnp.clip(jnp.nan_to_num(slope / (slope - slope_there)), 0.1, 0.5)
        return _State(
            point,
            value,
            gradient,
            _direction(history, gradient, diagonal),
            jnp.where(taken, 1.0, shorter),
            history,
            jnp.where(taken, jnp.sqrt(jnp.vdot(gradient, diagonal * gradient)), state.norm),
            state.steps + 1,
        )

    zeros, one = jnp.zeros_like(start), jnp.ones((), start.dtype)
    # No step from an infinite value: the first pass evaluates the start by the same code as all others.
    first = _State(start, infinite, zeros, zeros, one, (empty,) * memory, infinite, jnp.zeros((), jnp.int32))
    last = jax.lax.while_loop(go_on, advance, first)
    return Minimum(last.point, last.value, last.norm, last.norm <= goal, last.steps)


def _pair(step: Array, change: Array) -> Pair:
    curvature = jnp.vdot(step, change)
    trusted = curvature > 1e-10 * jnp.sqrt(jnp.vdot(step, step) * jnp.vdot(change, change))
    return Pair(step, change, jnp.where(trusted, 1 / jnp.where(trusted, curvature, 1), 0))


def _direction(history: tuple[Pair, ...], gradient: Array, diagonal: Array) -> Array:
    """Minus the inverse Hessian times `gradient`, as the remembered steps know it."""
    direction, shares = gradient, []
    for pair in history:
        shares.append(pair.inverse * jnp.vdot(pair.step, direction))
        direction = direction - shares[-1] * pair.change
    newest = history[0]
    stretch = newest.inverse * jnp.vdot(newest.change, diagonal * newest.change)
    direction = direction * diagonal / jnp.where(stretch > 0, stretch, 1)
    for pair, share in zip(reversed(history), reversed(shares), strict=True):
        direction = direction + (share - pair.inverse * jnp.vdot(pair.change, direction)) * pair.step
    return -direction


def _where(condition: Array, yes: T, no: T) -> T:
    chosen: T = jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
    return chosen
