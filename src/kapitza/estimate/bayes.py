"""Sampling of posteriors by emcee, shared by all fits.

The packages come with the extra ``kapitza[bayes]``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.monitor import Monitor, watch
from kapitza.base.workers import Executor, Shared, in_order
from kapitza.errors import KapitzaError

WALKERS = 4
"""Walkers in one job of a worker."""


def at_walkers(
    executor: Executor | None, function: Callable[[Shared[Any], Array], Array], shared: Shared[Any], theta: Array
) -> Array:
    """Evaluate function(shared, theta) for many parameter sets.

    theta (W, k) is cut into blocks of a few rows, which the workers share.
    """
    parts = [(shared, theta[i : i + WALKERS]) for i in range(0, len(theta), WALKERS)]
    return np.concatenate(list(in_order(executor, function, parts)))


def bayes_packages() -> tuple[Any, Any]:
    """Import ArviZ and emcee."""
    try:
        with warnings.catch_warnings():
            # ArviZ announces its own refactoring at the first import of a day.
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
        import emcee
    except ImportError as error:
        raise KapitzaError(f'{error.name} is missing: install it with pip install "kapitza[bayes]".') from None
    return arviz, emcee


def count_walkers(parameters: int, walkers: int | None, draws: int, tune: int) -> int:
    """Return the number of walkers of an ensemble.

    It is `walkers`, or eight per parameter and at least 32. Impossible numbers are refused.
    """
    # emcee's stretch move needs at least two walkers per parameter.
    found = max(8 * parameters, 32) if walkers is None else walkers
    if found < 2 * parameters or draws < 1 or tune < 0:
        raise KapitzaError(
            f"walkers = {found}, draws = {draws}, tune = {tune}: {parameters} parameters need at least "
            f"{2 * parameters} walkers and one draw."
        )
    return found


def sample_density(
    names: Sequence[str],
    density: Callable[[Array], Array],
    error: float,
    start: Array,
    random: np.random.RandomState,
    draws: int,
    tune: int,
    monitor: Monitor | None,
) -> Any:
    """Sample a density by emcee, as ArviZ InferenceData.

    start (W, k): the walkers. density: log p of many parameters (W, k) at once. error: of its expansion, NaN where the
    model is run. An interrupted run returns the finished draws.
    """
    arviz, emcee = bayes_packages()
    sampler = emcee.EnsembleSampler(len(start), len(names), density, vectorize=True)
    with watch(monitor, "sampling the posterior", tune + draws) as watched:
        for _ in sampler.sample(emcee.State(start, random_state=random.get_state()), iterations=tune + draws):
            watched.advance()
    # Draws of the burn-in are not samples of the posterior.
    if watched.interrupted and sampler.iteration <= tune:
        raise KeyboardInterrupt
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        samples: Any = arviz.from_emcee(sampler, var_names=list(names)).sel(draw=slice(tune, None))
    samples.posterior.attrs["status"] = watched.status.name
    samples.posterior.attrs["log_p_error"] = error
    return samples
