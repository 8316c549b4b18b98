"""Make the recordings that come with the package: a shaker test and the decay of a pendulum, with noise."""

from pathlib import Path

import numpy as np

import kapitza as kz

FOLDER = Path(__file__).parents[1] / "src" / "kapitza" / "recordings"


def shaker() -> None:
    """m x'' + c x' + k x + k3 x³ = F: m = 0.5 kg, c = 1.5 N s/m, k = 2000 N/m, k3 = 4e6 N/m³; F sweeps 6 to 14 Hz."""
    time = np.arange(3000) * 0.004
    phase = 2 * np.pi * (6.0 * time + 0.5 * 8.0 / time[-1] * time**2)
    force = 3.0 * np.sin(phase) * np.minimum(1.0, time / 0.5)
    model = kz.Model.from_equations(
        "m*x'' + c*x' + k*x + k3*x**3 = F",
        parameters={"m": 0.5, "c": 1.5, "k": 2000.0, "k3": 4e6},
        signals=[kz.Signal("F", time, force, float(time[-1] + time[1]), degree=3)],
    )
    motion = kz.simulate(model, x0=[0.0, 0.0], t=time)["x"]
    random = np.random.default_rng(3)
    x = 1e3 * motion + 0.02 * random.standard_normal(time.size)
    measured = force + 0.001 * random.standard_normal(time.size)
    write("shaker", "t [s],F [N],x [mm]", (time, measured, x), "%.3f,%.4f,%.3f")


def pendulum() -> None:
    """phi'' + d phi' + c sign(phi') + w2 sin(phi) = 0: d = 0.08 1/s, c = 0.25 rad/s², w2 = 38 rad²/s²."""
    time = np.arange(2000) * 0.01
    model = kz.Model.from_equations(
        "phi'' + d*phi' + c*sign(phi') + w2*sin(phi) = 0", angles=["phi"], parameters={"d": 0.08, "c": 0.25, "w2": 38.0}
    )
    motion = kz.simulate(model, x0=[np.radians(70.0), 0.0], t=time)["phi"]
    angle = np.degrees(motion) + 0.05 * np.random.default_rng(5).standard_normal(time.size)
    write("pendulum", "t [s],phi [deg]", (time, angle), "%.2f,%.3f")


def write(name: str, header: str, columns: tuple[np.ndarray, ...], form: str) -> None:
    np.savetxt(FOLDER / f"{name}.csv", np.column_stack(columns), fmt=form, header=header, comments="")


if __name__ == "__main__":
    shaker()
    pendulum()
