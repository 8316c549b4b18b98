"""Systems of the literature with values and sources.

Sources have short names: ORBITS, parameters of a chaotic pendulum from its unstable periodic orbits; HARMONIC, inverse
harmonic balance for a base-excited double pendulum; INVARIANT, parameters from a conserved quantity; PERIODIC, periodic
solvers inside a Bayesian estimator; HYBRID, control-based continuation of a hybrid experiment.
"""

from collections.abc import Callable

from kapitza.base.argument_checks import check_names
from kapitza.errors import ModelError, nearest_name
from kapitza.library.double_pendulums import base_excited_double_pendulum, planar_double_pendulum
from kapitza.library.duffing import duffing
from kapitza.library.forced_pendulums import horizontally_excited_pendulum, pendulum_on_spring
from kapitza.library.henon_heiles import henon_heiles
from kapitza.library.impacts import colliding_cart, pin_joint
from kapitza.library.landing_gear import oleo, oleo_simple, sampled_force
from kapitza.library.pendulum import parametric_pendulum
from kapitza.library.strange_attractors import lorenz, rossler
from kapitza.library.trace_map import trace_map
from kapitza.model import Model

SYSTEMS: tuple[Callable[[], Model], ...] = (
    parametric_pendulum,
    base_excited_double_pendulum,
    planar_double_pendulum,
    henon_heiles,
    trace_map,
    duffing,
    colliding_cart,
    pin_joint,
    oleo,
    oleo_simple,
    pendulum_on_spring,
    horizontally_excited_pendulum,
    lorenz,
    rossler,
)
"""Every system, in the order in which the documentation lists them; calling one gives its model."""

__all__ = [
    "SYSTEMS",
    "base_excited_double_pendulum",
    "colliding_cart",
    "duffing",
    "henon_heiles",
    "horizontally_excited_pendulum",
    "lorenz",
    "model_named",
    "oleo",
    "oleo_simple",
    "parametric_pendulum",
    "pendulum_on_spring",
    "pin_joint",
    "planar_double_pendulum",
    "rossler",
    "sampled_force",
    "trace_map",
]


def model_named(name: str) -> Model:
    """Return the system of this name.

    It has the values of its source.

    Parameters
    ----------
    name : str
        One of those of `SYSTEMS`.

    Returns
    -------
    Model

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.model_named("duffing").names
    ('k', 'B')
    """
    makers = {make.__name__: make for make in SYSTEMS}
    if name not in makers:
        raise ModelError(
            f'The library has no model "{name}".{nearest_name(name, makers)} It has {", ".join(makers)}; a model of '
            "your own is a .toml file."
        )
    return makers[name]()


check_names(globals())
