"""The Hénon-Heiles class of Hamiltonians."""

from __future__ import annotations

from kapitza.model import Model, Parameter


def henon_heiles() -> Model:
    """Two oscillators with a cubic coupling (INVARIANT, equations 12-15).

        H = p1²/(2 m1) + p2²/(2 m2) + ω1² q1²/2 + ω2² q2²/2 + a q1³ + b q1² q2 + c q1 q2² + d q2³

    The classical system has m1 = m2 = ω1 = ω2 = b = 1, a = c = 0, d = -1/3. The start is the chaotic orbit of the
    document, (p1, p2, q1, q2) = (0.4, -0.4, 0, 0). States: q1, q2, p1, p2, with p = m q'.

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.henon_heiles().states
    ('q1', 'q2', 'p1', 'p2')
    """
    positive = (0.0, float("inf"))
    return Model.from_hamiltonian(
        "p1**2/(2*m1) + p2**2/(2*m2) + omega1**2*q1**2/2 + omega2**2*q2**2/2"
        " + a*q1**3 + b*q1**2*q2 + c*q1*q2**2 + d*q2**3",
        positions=["q1", "q2"],
        momenta=["p1", "p2"],
        parameters=[
            Parameter("m1", 1.0, bounds=positive, description="first mass"),
            Parameter("m2", 1.0, bounds=positive, description="second mass"),
            Parameter("omega1", 1.0, bounds=positive, description="first spring, as a frequency at unit mass"),
            Parameter("omega2", 1.0, bounds=positive, description="second spring, as a frequency at unit mass"),
            Parameter("a", 0.0, description="coefficient of q1³"),
            Parameter("b", 1.0, description="coefficient of q1² q2"),
            Parameter("c", 0.0, description="coefficient of q1 q2²"),
            Parameter("d", -1.0 / 3.0, description="coefficient of q2³"),
        ],
        start={"q1": 0.0, "q2": 0.0, "p1": 0.4, "p2": -0.4},
        name="henon_heiles",
        description="Two oscillators with cubic coupling; H is conserved",
        source="INVARIANT, equations 12-15",
    )
