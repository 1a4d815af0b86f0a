"""L-BFGS for smooth convex functions, written for one problem and meant to be vmapped over many.

One pass of the loop is one evaluation. A problem whose step was refused shortens it and tries again while
its neighbours go on, so a stack of problems waits for nobody's line search and stays one wide computation.

Two-loop recursion: Nocedal & Wright, Numerical Optimization, algorithms 7.4 and 7.5. The test that still
works where differences of values drown in rounding: Hager & Zhang (SIAM J. Optim. 2005), "approximate Wolfe".
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

T = TypeVar("T")
ARMIJO = 1e-4
SHORTEST = 1e-6  # a step refused down to this share of itself will not succeed in this precision


class History(NamedTuple):
    """The last m steps, newest first, and what the gradient changed along each; zeros where there was none yet."""

    step: Float[Array, "m *shape"]
    change: Float[Array, "m *shape"]
    inverse: Float[Array, " m"]  # 1 / <step, change>


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
    history: History
    norm: Array
    gap: Array  # estimate of value - minimum: half of <gradient, inverse Hessian * gradient>
    steps: Array


def minimise(
    value_and_grad: Callable[[Array], tuple[Array, Array]],
    start: Float[Array, "*shape"],
    *,
    diagonal: Float[Array, "*metric"],
    goal: Float[Array, ""],
    max_steps: int,
    accuracy: float | Float[Array, ""] = math.inf,
    memory: int = 10,
) -> Minimum:
    """Go downhill from `start` until the gradient's norm is at most `goal`, and the gap at most `accuracy` * value.

    `diagonal` approximates the inverse Hessian: it scales the first step and every later one, and the norm is
    sqrt(<gradient, diagonal * gradient>). The gap to the minimum is estimated by the inverse Hessian that the
    steps have revealed; the norm alone is blind to directions that have become much flatter than at the start.
    """
    noise = 10 * jnp.finfo(start.dtype).eps
    infinite = jnp.full((), jnp.inf, start.dtype)

    def arrived(state: _State) -> Array:
        return (state.norm <= goal) & ((state.gap <= accuracy * jnp.abs(state.value)) | jnp.isinf(accuracy))

    def go_on(state: _State) -> Array:
        return ~arrived(state) & (state.length > SHORTEST) & (state.steps < max_steps)

    def advance(state: _State) -> _State:
        trial = state.point + state.length * state.direction
        value, gradient = value_and_grad(trial)
        slope, slope_there = jnp.vdot(state.direction, state.gradient), jnp.vdot(state.direction, gradient)
        lower = value <= state.value + ARMIJO * state.length * slope
        level = value <= state.value + noise * jnp.abs(state.value)
        taken = lower | (level & (slope_there <= (2 * ARMIJO - 1) * slope))

        history = _remember(state.history, trial - state.point, gradient - state.gradient, taken)
        point, value, gradient = _where(
            taken, (trial, value, gradient), (state.point, state.value, state.gradient)
        )
        shorter = state.length * jnp.clip(jnp.nan_to_num(slope / (slope - slope_there)), 0.1, 0.5)
        direction = _direction(history, gradient, diagonal)
        return _State(
            point,
            value,
            gradient,
            direction,
            jnp.where(taken, 1.0, shorter),
            history,
            jnp.where(taken, jnp.sqrt(jnp.vdot(gradient, diagonal * gradient)), state.norm),
            -jnp.vdot(direction, gradient) / 2,
            state.steps + 1,
        )

    zeros, one = jnp.zeros_like(start), jnp.ones((), start.dtype)
    places = jnp.zeros((memory, *start.shape), start.dtype)
    empty = History(places, places, jnp.zeros(memory, start.dtype))
    # No step from an infinite value: the first pass evaluates the start by the same code as all others.
    first = _State(start, infinite, zeros, zeros, one, empty, infinite, infinite, jnp.zeros((), jnp.int32))
    last = jax.lax.while_loop(go_on, advance, first)
    return Minimum(last.point, last.value, last.norm, arrived(last), last.steps)


def _remember(history: History, step: Array, change: Array, taken: Array) -> History:
    """`history` with one more step in front, if it was taken and met a curvature above rounding."""
    curvature = jnp.vdot(step, change)
    trusted = curvature > 1e-10 * jnp.sqrt(jnp.vdot(step, step) * jnp.vdot(change, change))
    newest = History(step, change, 1 / jnp.where(trusted, curvature, 1))
    longer = jax.tree.map(lambda new, old: jnp.concatenate([new[None], old[:-1]]), newest, history)
    remembered: History = _where(taken & trusted, longer, history)
    return remembered


def _direction(history: History, gradient: Array, diagonal: Array) -> Array:
    """Minus the inverse Hessian times `gradient`, as the remembered steps know it."""
    step, change, inverse = history
    memory = len(inverse)

    def forget(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        direction, shares = carry
        share = inverse[i] * jnp.vdot(step[i], direction)
        return direction - share * change[i], shares.at[i].set(share)

    direction, shares = jax.lax.fori_loop(0, memory, forget, (gradient, jnp.zeros_like(inverse)))
    stretch = inverse[0] * jnp.vdot(change[0], diagonal * change[0])
    direction = direction * diagonal / jnp.where(stretch > 0, stretch, 1)

    def recall(back: Array, direction: Array) -> Array:
        i = memory - 1 - back
        known: Array = shares[i] - inverse[i] * jnp.vdot(change[i], direction)
        return direction + known * step[i]

    uphill: Array = jax.lax.fori_loop(0, memory, recall, direction)
    return -uphill


def _where(condition: Array, yes: T, no: T) -> T:
    chosen: T = jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
    return chosen
