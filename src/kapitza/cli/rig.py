"""Implement `kapitza rig serve`.

A simulated rig in its own process, to be driven over ZeroMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kapitza.errors import RigError, nearest_name

if TYPE_CHECKING:
    from kapitza.rig import SimulatedRig

RIGS = ("pendulum", "duffing", "beam")

rig_app = typer.Typer(name="rig", no_args_is_help=True, help="Run rigs in separate processes.")


@rig_app.callback()
def about() -> None:
    """Run rigs in separate processes.

    Examples are `kapitza rig serve pendulum` and `kapitza rig serve cart.toml`.
    """


@rig_app.command("serve")
def serve(
    system: Annotated[
        str, typer.Argument(help="Which simulated rig: pendulum, duffing, beam, or a rig file (.toml).")
    ] = "pendulum",
    address: Annotated[str, typer.Option(help="Where to listen; * takes a free port.")] = "tcp://127.0.0.1:*",
    token: Annotated[str | None, typer.Option(help="Secret that clients must know; a new one by default.")] = None,
    watchdog: Annotated[float, typer.Option(help="Silence of the client after which the rig is stopped [s].")] = 2.0,
    noise: Annotated[float | None, typer.Option(help="Noise of the sensors, as a share of typical values.")] = None,
    delay: Annotated[float | None, typer.Option(help="Delay of actuator and control [s] (pendulum).")] = None,
    actuator: Annotated[float | None, typer.Option(help="Second-order actuator [rad/s] (pendulum).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the noise.")] = None,
    remote: Annotated[bool, typer.Option(help="Let other machines in, with CURVE keys.")] = False,
) -> None:
    """Serve a simulated rig.

    The address and the token are printed; kz.rig.RemoteRig takes them.
    """
    from kapitza.base import checks
    from kapitza.rig import Keys, RigServer, read_rig

    rig: SimulatedRig
    seed = checks.seed(seed)
    if system.endswith(".toml"):
        given = [n for n, v in (("noise", noise), ("delay", delay), ("actuator", actuator)) if v is not None]
        if given:
            raise RigError(f'--{given[0]} is for the rigs that come with Kapitza; write it into "{system}".')
        rig = read_rig(system, seed)
    else:
        rig = _own_rig(system, noise or 0.0, delay, actuator, seed or 0)
    keys = Keys.new() if remote else None
    server = RigServer(rig, address, token, keys, watchdog, remote)
    typer.echo(f"address {server.address}")
    typer.echo(f"token {server.token}")
    if keys is not None:
        typer.echo(f"key {keys.public}")
    server.run()


def _own_rig(system: str, noise: float, delay: float | None, actuator: float | None, seed: int) -> SimulatedRig:
    """Return one of the rigs that come with Kapitza."""
    from kapitza.base import checks
    from kapitza.rig import SecondOrder, Sensors, beam_rig, duffing_rig, pendulum_rig

    if system not in RIGS:
        raise RigError(
            f'There is no simulated rig "{checks.printable(system)}".{nearest_name(system, RIGS)} There are: '
            f"{', '.join(RIGS)}, or a rig file that ends in .toml."
        )
    if system == "pendulum":
        sensors = Sensors(noise={"theta": 0.5 * noise, "y": 0.01 * noise, "F": 0.8 * noise})
        late = 0.01 if delay is None else delay
        chosen = None if actuator is None else SecondOrder(actuator, 5.0, late, "F")
        return pendulum_rig(chosen, delay=late, sensors=sensors, seed=seed)
    if delay is not None or actuator is not None:
        raise RigError(f"--delay and --actuator are for the pendulum; {system} has neither.")
    build = duffing_rig if system == "duffing" else beam_rig
    return build(sensors=Sensors(noise={"x": noise}), seed=seed)
