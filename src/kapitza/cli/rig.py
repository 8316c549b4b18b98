"""`kapitza rig serve`: a simulated rig in a process of its own, to be driven over ZeroMQ."""

from __future__ import annotations

from typing import Annotated

import typer

from kapitza.errors import RigError, nearest_name

RIGS = ("pendulum", "duffing", "beam")

rig_app = typer.Typer(name="rig", no_args_is_help=True, help="Rigs in a process of their own.")


@rig_app.callback()
def about() -> None:
    """Rigs in a process of their own: `kapitza rig serve pendulum`."""


@rig_app.command("serve")
def serve(
    system: Annotated[str, typer.Argument(help="Which simulated rig: pendulum, duffing or beam.")] = "pendulum",
    address: Annotated[str, typer.Option(help="Where to listen; * takes a free port.")] = "tcp://127.0.0.1:*",
    token: Annotated[str | None, typer.Option(help="Secret that clients must know; a new one by default.")] = None,
    watchdog: Annotated[float, typer.Option(help="Silence of the client after which the rig is stopped [s].")] = 2.0,
    noise: Annotated[float, typer.Option(help="Noise of the sensors, as a share of typical readings.")] = 0.0,
    delay: Annotated[float, typer.Option(help="Delay of actuator and control [s] (pendulum).")] = 0.01,
    actuator: Annotated[float | None, typer.Option(help="Second-order actuator [rad/s] (pendulum).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    remote: Annotated[bool, typer.Option(help="Let other machines in, with CURVE keys.")] = False,
) -> None:
    """Serve a simulated rig. Prints the address and the token, which kz.rig.RemoteRig takes."""
    from kapitza.rig import Keys, RigServer, SecondOrder, Sensors, beam_rig, duffing_rig, pendulum_rig

    if system not in RIGS:
        raise RigError(
            f'There is no simulated rig "{system}".{nearest_name(system, RIGS)} There are: {", ".join(RIGS)}.'
        )
    if system == "pendulum":
        sensors = Sensors(noise={"theta": 0.5 * noise, "y": 0.01 * noise, "F": 0.8 * noise})
        chosen = None if actuator is None else SecondOrder(actuator, 5.0, delay, "F")
        rig = pendulum_rig(chosen, delay=delay, sensors=sensors, seed=seed)
    else:
        build = duffing_rig if system == "duffing" else beam_rig
        rig = build(sensors=Sensors(noise={"x": noise}), seed=seed)
    keys = Keys.new() if remote else None
    server = RigServer(rig, address, token, keys, watchdog, remote)
    typer.echo(f"address {server.address}")
    typer.echo(f"token {server.token}")
    if keys is not None:
        typer.echo(f"key {keys.public}")
    server.run()
