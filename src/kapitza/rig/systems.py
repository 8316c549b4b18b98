"""Simulated rigs for trials.

They are the hanging pendulum of HYBRID, a Duffing oscillator, and a beam with a gap.
"""

from __future__ import annotations

from dataclasses import replace

from kapitza.base.argument_checks import Anything
from kapitza.library import pendulum_on_spring
from kapitza.model import Model, Parameter
from kapitza.rig.experiment import Experiment
from kapitza.rig.parts import Driven, Feedback, PureDelay, SecondOrder, Sensors
from kapitza.rig.protocol import Rig
from kapitza.rig.simulated import SimulatedRig

PENDULUM_FORCE = "-m*y'' - m*l*(theta''*sin(theta) + theta'**2*cos(theta))"
"""Force of the pendulum on its pivot, N."""


def spring_part() -> Model:
    """Return the simulated part of HYBRID.

    It obeys M y'' + C y' + K y = a cos Ωt + F, with the measured force F of the pendulum.
    """
    return Model.from_equations(
        "M*y'' + C*y' + K*y = a*cos(Omega*t) + F",
        parameters=[
            Parameter("M", 0.2, "kg", description="mass on the spring"),
            Parameter("C", 0.1, "kg/s", description="damping of the spring"),
            Parameter("K", 200.0, "N/m", description="stiffness of the spring"),
            Parameter("a", 2.0, "N", description="forcing amplitude"),
            Parameter("Omega", 13.0, "rad/s", (0.0, 100.0), description="forcing frequency"),
            Parameter("F", 0.0, "N", description="force of the pendulum, measured"),
        ],
        period="2*pi/Omega",
        name="spring_part",
    )


def pendulum_test(
    rig: Rig | None = None, modes: int = 6, Omega: float = 13.0, a: float = 2.0, **settings: Anything
) -> Experiment:
    """Return the hybrid test of HYBRID.

    It couples the pendulum rig with the simulated mass on a spring, over two forcing periods.
    """
    return Experiment(
        rig if rig is not None else pendulum_rig(),
        numerical=spring_part(),
        repeats=2,
        modes=modes,
        scales={"theta": 1.0, "y": 0.02},
        values={"Omega": Omega, "a": a},
        **settings,
    )


def pendulum_rig(
    actuator: PureDelay | SecondOrder | None = None,
    gains: tuple[float, float] = (4.0, 4.0),
    delay: float = 0.010,
    sensors: Sensors | None = None,
    velocity: str = "sensor",
    sample_time: float = 1e-3,
    seed: int = 0,
) -> SimulatedRig:
    """Return the experimental part of HYBRID.

    It is a pendulum whose pivot an actuator moves, under delayed control (29).
    The inputs are y, demand of the pivot in m, and theta, demand of the controlled angle in rad. The outputs are y,
    theta, and the force F in N that the pendulum puts on the pivot. The default actuator is a pure delay of 10 ms.
    """
    return SimulatedRig(
        pendulum_on_spring(),
        driven=[Driven("y", actuator or PureDelay(delay), limit=0.3, rate_limit=8.0)],
        feedback=[Feedback("theta", gains, delay, velocity, limit=3.0, rate_limit=60.0)],
        outputs={"F": PENDULUM_FORCE},
        sample_time=sample_time,
        sensors=sensors,
        seed=seed,
    )


def duffing_rig(
    gains: tuple[float, float] = (1.0, 0.8),
    delay: float = 0.0,
    sensors: Sensors | None = None,
    sample_time: float = 0.02,
    seed: int = 0,
) -> SimulatedRig:
    """Return a shaken oscillator with hardening spring.

    x'' + 0.1 x' + x + x³ = B cos ωt + u; B and ω can be set.
    """
    model = Model.from_equations(
        "x'' + d*x' + x + x**3 = B*cos(omega*t)",
        parameters=[
            Parameter("d", 0.1, description="damping"),
            Parameter("B", 0.3, "", (0.0, 2.0), description="forcing amplitude"),
            Parameter("omega", 1.0, "rad/s", (0.2, 5.0), description="forcing frequency"),
        ],
        period="2*pi/omega",
        start={"x": 0.0, "x'": 0.0},
        name="duffing_rig",
    )
    feedback = Feedback("x", gains, delay, limit=10.0, rate_limit=100.0)
    return SimulatedRig(
        model,
        feedback=[feedback],
        adjustable=("B", "omega"),
        sample_time=sample_time,
        sensors=sensors,
        ramp=1.0,
        seed=seed,
    )


def beam_rig(
    gains: tuple[float, float] = (0.0, 60.0),
    delay: float = 0.0,
    sensors: Sensors | None = None,
    sample_time: float = 1e-3,
    seed: int = 0,
) -> SimulatedRig:
    """Return a base-excited beam with a gap.

    The model is the first mode of a beam that meets a spring across a gap.

        x'' + 2 ζ ω0 x' + ω0² x + k max(0, x - gap) = A Ω² cos Ωt + u,   x in mm, relative to the base

    ω0 = 2π · 10 Hz, ζ = 2 %, k = 1.5 ω0², gap 1 mm; A (base amplitude, mm) and Omega can be set.
    """
    model = Model.from_equations(
        "x'' + 2*zeta*omega0*x' + omega0**2*x + ratio*omega0**2*Max(0, x - gap) = A*Omega**2*cos(Omega*t)",
        parameters=[
            Parameter("zeta", 0.02, description="damping ratio"),
            Parameter("omega0", 62.83185307179586, "rad/s", description="natural frequency"),
            Parameter("ratio", 1.5, description="stiffness across the gap over that of the beam"),
            Parameter("gap", 1.0, "mm", description="gap"),
            Parameter("A", 0.1, "mm", (0.0, 2.0), description="amplitude of the base"),
            Parameter("Omega", 62.83185307179586, "rad/s", (30.0, 120.0), description="frequency of the base"),
        ],
        period="2*pi/Omega",
        start={"x": 0.0, "x'": 0.0},
        name="beam_rig",
    )
    model = replace(model, coordinates=(replace(model.coordinates[0], unit="mm"),))
    feedback = Feedback("x", gains, delay, limit=50.0, rate_limit=5000.0)
    return SimulatedRig(
        model, feedback=[feedback], adjustable=("A", "Omega"), sample_time=sample_time, sensors=sensors, seed=seed
    )
