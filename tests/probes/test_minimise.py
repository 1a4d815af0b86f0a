import jax
import jax.numpy as jnp
import numpy as np

from probes.minimise import minimise


def quadratic(scales, target):
    def value_and_grad(point):
        away = point - target
        return jnp.sum(scales * away**2) / 2, scales * away

    return value_and_grad


def test_a_quadratic_is_solved_and_the_norm_is_the_gradients():
    scales, target = jnp.logspace(-2, 2, 12), jnp.arange(12.0)
    found = minimise(
        quadratic(scales, target), jnp.zeros(12), diagonal=jnp.ones(12), goal=jnp.float32(1e-3), max_steps=200
    )
    assert found.converged
    assert found.norm <= 1e-3
    np.testing.assert_allclose(np.linalg.norm(scales * (found.point - target)), found.norm, rtol=1e-5)


def test_the_exact_inverse_hessian_needs_one_step():
    scales, target = jnp.logspace(-3, 3, 12), jnp.ones(12)
    found = minimise(
        quadratic(scales, target), jnp.zeros(12), diagonal=1 / scales, goal=jnp.float32(1e-4), max_steps=9
    )
    assert found.converged
    assert found.steps == 2  # the start, and the step


def test_a_stack_stops_one_by_one():
    scales = jnp.stack([jnp.ones(8), jnp.logspace(-2, 2, 8)])

    def solve(scales):
        return minimise(
            quadratic(scales, jnp.ones(8)),
            jnp.zeros(8),
            diagonal=jnp.ones(8),
            goal=jnp.float32(1e-4),
            max_steps=99,
        )

    found = jax.jit(jax.vmap(solve))(scales)
    assert found.converged.all()
    assert found.steps[0] == 2 < found.steps[1]
    alone = solve(scales[1])
    assert abs(alone.steps - found.steps[1]) < 9  # rounding differs
    np.testing.assert_allclose(found.point[1], alone.point, atol=1e-4)


def test_steps_that_are_too_long_are_shortened():
    def value_and_grad(point):
        return jnp.logaddexp(point, -point).sum(), jnp.tanh(point)

    found = minimise(
        value_and_grad, jnp.full(1, 3.0), diagonal=jnp.full(1, 1e4), goal=jnp.float32(1e-3), max_steps=60
    )
    assert found.converged
    assert abs(found.point[0]) < 1e-4


def test_not_a_number_is_never_accepted():
    def value_and_grad(point):
        return jnp.nan * point.sum(), point

    found = minimise(value_and_grad, jnp.ones(3), diagonal=jnp.ones(3), goal=jnp.float32(0.1), max_steps=100)
    assert not found.converged
    assert found.steps < 30
    assert (found.point == 1).all()
