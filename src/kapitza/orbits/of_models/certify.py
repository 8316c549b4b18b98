"""A second opinion on the multipliers of an orbit."""

from __future__ import annotations

from dataclasses import replace

from kapitza.errors import KapitzaError
from kapitza.model import Model
from kapitza.orbits import Certificate, PeriodicOrbit
from kapitza.orbits.of_models.collocation import Collocation
from kapitza.orbits.of_models.floquet import match, stability
from kapitza.orbits.of_models.problem import Method
from kapitza.orbits.of_models.shooting import MultipleShooting
from kapitza.orbits.of_models.solve_orbit import solve_orbit


def certify(model: Model, orbit: PeriodicOrbit, method: Method | None = None) -> PeriodicOrbit:
    """Check the multipliers of an orbit by another method.

    Returns the orbit with `certificate.agreement`, the largest relative difference.

    Stability is evaluated anew: it is "unknown" where the largest multiplier is within the defect of the unit circle.

    Parameters
    ----------
    model : Model
        The one the orbit was solved for.
    orbit : PeriodicOrbit
        With multipliers.
    method : periodic solver, optional
        Collocation() by default (MultipleShooting() for orbits that came from it).

    Returns
    -------
    PeriodicOrbit
        The same orbit, with agreement, stability and a note.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.library.duffing()
    >>> bool(kz.certify(model, kz.solve_orbit(model)).certificate.agreement < 1e-6)
    True
    """
    if orbit.multipliers is None:
        raise KapitzaError("The orbit has no multipliers to compare: solve it first.")
    second = method or (MultipleShooting() if orbit.method == "Collocation" else Collocation())
    model = model.with_values(**{name: orbit.parameters[name] for name in model.names if name in orbit.parameters})
    other = solve_orbit(model, orbit, method=second)
    assert other.multipliers is not None
    agreement = match(orbit.multipliers, other.multipliers)
    trust = replace(orbit.certificate or Certificate(), agreement=agreement)
    judged = stability(orbit.multipliers, trust.defect, orbit.repeats is None)
    return orbit.with_(
        certificate=trust, stability=judged, notes=(*orbit.notes, f"multipliers agree with {other.method}")
    )
