"""Models of linkages described in URDF.

Links are rigid; joints turn or slide, with damping and dry friction.

The kinetic energy is T = Σ m v²/2 + ωᵀ I ω/2 over the links, with v the velocity of the centre of mass and ω the
angular velocity; the potential is V = Σ m g z. The equations follow from the Lagrangian T - V, with the torque
-d q' - f sign(q') in each joint.
"""

from __future__ import annotations

import math
import os
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from xml.parsers import expat

import sympy as sp

from kapitza.base import checks
from kapitza.errors import ModelError, nearest_name
from kapitza.model.build import Written, from_lagrangian
from kapitza.model.parts import Coordinate, Parameter
from kapitza.model.symbols import rate, symbol

if TYPE_CHECKING:
    from kapitza.model.model import Model

LARGEST_FILE = 20_000_000
"""Bytes of a description."""

MOST_JOINTS = 50
"""Joints of a linkage: its energy is written out symbolically."""

DEEPEST = 100
"""Elements inside each other."""

MOVING = ("revolute", "continuous", "prismatic")

EXACT = 1e-12
"""Entries of rotations this close to 0 and ±1 are these numbers: pi/2 has no exact cosine in floating point."""


def from_urdf(path: str | os.PathLike[str], forces: Mapping[str, Written] | None = None, **parts: Any) -> Model:
    """See `Model.from_urdf`."""
    path = Path(path)
    root = _parsed(path)
    shown = f'"{checks.printable(path.name)}"'
    if root.tag != "robot":
        raise ModelError(f"{shown} is not URDF: its root is <{checks.printable(root.tag)[:40]}>, not <robot>.")
    links = {_attribute(link, "name", shown): link for link in root.findall("link")}
    joints = [_joint(element, shown) for element in root.findall("joint")]
    _check_tree(links, joints, shown)
    motion = _Motion({}, {}, [], sp.Integer(0), [])
    root_link = next(name for name in links if name not in {j.child for j in joints})
    _add_link(motion, root_link, links, joints, (sp.eye(3), sp.zeros(3, 1), sp.zeros(3, 1)))
    if not motion.coordinates:
        raise ModelError(f"{shown} has no joint that moves; joints are {', '.join(MOVING)}.")
    unknown = [name for name in forces or {} if name not in motion.coordinates]
    if unknown:
        raise ModelError(
            f'forces: {shown} has no joint "{unknown[0]}".{nearest_name(unknown[0], list(motion.coordinates))}'
        )
    gravity = Parameter("g", 9.80665, "m/s^2", description="gravity along -z")
    settings = {"name": checks.printable(root.get("name", "") or path.stem), "source": f"URDF {shown}", **parts}
    return from_lagrangian(
        motion.lagrangian,
        list(motion.coordinates.values()),
        parameters=[*motion.parameters, gravity],
        forces={name: sp.sympify(motion.friction.get(name, 0)) for name in motion.coordinates}
        if not forces
        else _summed(motion, forces, [p.name for p in (*motion.parameters, gravity)]),
        **settings,
    )


def _summed(motion: _Motion, forces: Mapping[str, Written], constants: list[str]) -> dict[str, Written]:
    """Return the forces on the joints.

    They are the friction of the joints plus the forces of the user.
    """
    from kapitza.model.build import read_expression

    names = [*motion.coordinates, *(f"{n}'" for n in motion.coordinates), *constants]
    given = {name: read_expression(f, names, f'forces "{name}"') for name, f in forces.items()}
    return {
        name: motion.friction.get(name, sp.Integer(0)) + given.get(name, sp.Integer(0)) for name in motion.coordinates
    }


Frame = tuple[sp.Matrix, sp.Matrix, sp.Matrix]
"""Rotation (3, 3), place (3, 1) and angular velocity (3, 1) of a link, in the base."""


@dataclass(frozen=True)
class _Joint:
    """A joint with its place and its motion.

    The place is that in its parent.
    """

    name: str
    kind: str
    parent: str
    child: str
    place: sp.Matrix
    turn: sp.Matrix
    axis: sp.Matrix
    damping: float
    friction: float


@dataclass
class _Motion:
    """Coordinates, forces and energy gathered from the links."""

    coordinates: dict[str, Coordinate]
    friction: dict[str, sp.Expr]
    parameters: list[Parameter]
    lagrangian: sp.Expr
    speeds: list[sp.Symbol]


def _parsed(path: Path) -> ET.Element:
    """Return the elements of an XML file.

    Document types, and with them entities, are refused.
    """
    shown = f'"{checks.printable(path.name)}"'
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ModelError(f"{shown} has more than {LARGEST_FILE} bytes.")
        content = path.read_bytes()
    except OSError as problem:
        raise ModelError(f"{shown} cannot be read: {problem.strerror}.") from problem
    builder, parser, depth = ET.TreeBuilder(), expat.ParserCreate(), 0

    def refuse(*_: object) -> NoReturn:
        raise ModelError(f"{shown} declares a document type or entities; remove them: a description needs none.")

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise ModelError(f"{shown} has elements more than {DEEPEST} deep.")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    try:
        parser.Parse(content, True)
    except expat.ExpatError as problem:
        raise ModelError(f"{shown} is not XML: {problem}.") from problem
    return builder.close()


def _attribute(element: ET.Element, key: str, shown: str) -> str:
    value = element.get(key, "")
    if not value:
        raise ModelError(f'{shown}: an element <{element.tag}> lacks "{key}".')
    return value


def _numbers(text: str | None, default: tuple[float, ...], what: str) -> list[sp.Expr]:
    """Return the numbers of an attribute.

    Whole numbers are exact.
    """
    if text is None:
        return [sp.Float(v) if v % 1 else sp.Integer(int(v)) for v in default]
    words = text.split()
    try:
        values = [float(w) for w in words]
    except ValueError:
        values = []
    if len(values) != len(default) or not all(map(math.isfinite, values)):
        raise ModelError(f'{what}: "{checks.printable(text)[:60]}" is not {len(default)} finite numbers.')
    return [sp.Integer(int(v)) if v == int(v) else sp.Float(repr(v), 17) for v in values]


def _joint(element: ET.Element, shown: str) -> _Joint:
    name, kind = _attribute(element, "name", shown), _attribute(element, "type", shown)
    what = f'{shown}, joint "{checks.printable(name)}"'
    if kind not in (*MOVING, "fixed"):
        raise ModelError(f'{what} is of type "{checks.printable(kind)}"; joints are {", ".join(MOVING)} and fixed.')
    if element.find("mimic") is not None:
        raise ModelError(f"{what} mimics another one; write the equation of the gear by hand.")
    ends = [element.find("parent"), element.find("child")]
    parent, child = (_attribute(e, "link", what) if e is not None else "" for e in ends)
    if not parent or not child:
        raise ModelError(f"{what} lacks its parent or child.")
    place, turn = _origin(element, what)
    axis = element.find("axis")
    direction = sp.Matrix(_numbers(None if axis is None else axis.get("xyz"), (1.0, 0.0, 0.0), f"{what}, axis"))
    length = sp.sqrt((direction.T * direction)[0])
    if length == 0:
        raise ModelError(f"{what}: its axis is zero.")
    loss = element.find("dynamics")
    damping, friction = (
        float(_numbers(None if loss is None else loss.get(key), (0.0,), f"{what}, {key}")[0])
        for key in ("damping", "friction")
    )
    if damping < 0 or friction < 0:
        raise ModelError(f"{what}: damping {damping:g} and friction {friction:g} must not be negative.")
    return _Joint(name, kind, parent, child, place, turn, direction / length, damping, friction)


def _origin(element: ET.Element, what: str) -> tuple[sp.Matrix, sp.Matrix]:
    """Return place (3, 1) and rotation (3, 3).

    They are those of a frame in its parent: Rz(yaw) Ry(pitch) Rx(roll).
    """
    origin = element.find("origin")
    xyz, rpy = (None, None) if origin is None else (origin.get("xyz"), origin.get("rpy"))
    place = sp.Matrix(_numbers(xyz, (0.0, 0.0, 0.0), f"{what}, xyz"))
    angles = [float(v) for v in _numbers(rpy, (0.0, 0.0, 0.0), f"{what}, rpy")]
    turn = sp.eye(3)
    for axis, angle in zip(((1, 0, 0), (0, 1, 0), (0, 0, 1)), angles, strict=True):
        turn = _rotation(sp.Matrix(axis), _exact(math.cos(angle)), _exact(math.sin(angle))) * turn
    return place, turn


def _exact(value: float) -> sp.Expr:
    near = round(value)
    return sp.Integer(near) if abs(value - near) < EXACT else sp.Float(repr(value), 17)


def _rotation(axis: sp.Matrix, cosine: sp.Expr, sine: sp.Expr) -> sp.Matrix:
    """Return the rotation about a unit vector.

    Rodrigues' formula: R = cos·1 + sin·[n]ₓ + (1 - cos) n nᵀ.
    """
    x, y, z = axis
    cross = sp.Matrix([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return sp.eye(3) * cosine + cross * sine + (axis * axis.T) * (1 - cosine)


def _check_tree(links: Mapping[str, ET.Element], joints: list[_Joint], shown: str) -> None:
    """Refuse unknown links, loops and several roots."""
    if len(joints) > MOST_JOINTS:
        raise ModelError(f"{shown} has {len(joints)} joints; at most {MOST_JOINTS} are taken.")
    children: set[str] = set()
    for joint in joints:
        for end in (joint.parent, joint.child):
            if end not in links:
                raise ModelError(
                    f'{shown}: joint "{joint.name}" names the link "{checks.printable(end)}", which is missing.'
                )
        if joint.child in children:
            raise ModelError(f'{shown}: link "{joint.child}" has two parents; closed loops are not taken.')
        children.add(joint.child)
    roots = [name for name in links if name not in children]
    if len(roots) != 1:
        names = ", ".join(roots[:3])
        raise ModelError(f"{shown} has {len(roots)} links without a parent ({names}); there must be one.")
    reached = set(roots)
    while added := {j.child for j in joints if j.parent in reached} - reached:
        reached |= added
    if len(reached) < len(links):
        lost = next(name for name in links if name not in reached)
        raise ModelError(f'{shown}: link "{lost}" is in a closed loop, which is not connected to "{roots[0]}".')


def _add_link(motion: _Motion, name: str, links: Mapping[str, ET.Element], joints: list[_Joint], frame: Frame) -> None:
    """Add the energy of a link and its descendants.

    frame: rotation, place and angular velocity, in the base.
    """
    turn, place, spin = frame
    inertial = links[name].find("inertial")
    if inertial is not None:
        _add_energy(motion, name, inertial, frame)
    for joint in joints:
        if joint.parent != name:
            continue
        here, base = place + turn * joint.place, turn * joint.turn
        if joint.kind == "fixed":
            _add_link(motion, joint.child, links, joints, (base, here, spin))
            continue
        word = _word(joint.name, motion)
        q, speed = symbol(word), rate(word)
        motion.speeds.append(speed)
        motion.coordinates[word] = Coordinate(
            word, 2, angle=joint.kind == "continuous", unit="m" if joint.kind == "prismatic" else "rad"
        )
        _add_losses(motion, word, joint)
        axis = base * joint.axis
        if joint.kind == "prismatic":
            _add_link(motion, joint.child, links, joints, (base, here + axis * q, spin))
        else:
            rotated = base * _rotation(joint.axis, sp.cos(q), sp.sin(q))
            _add_link(motion, joint.child, links, joints, (rotated, here, spin + axis * speed))


def _word(name: str, motion: _Motion) -> str:
    """Return the name of a joint as a coordinate."""
    word = "".join(c if c.isalnum() and c.isascii() else "_" for c in name).strip("_") or "q"
    word = "_".join(part for part in word.split("_") if part)
    word = f"q_{word}" if not word[0].isalpha() or word in ("g", "t") else word
    if word in motion.coordinates:
        raise ModelError(f'Two joints are named "{checks.printable(name)}" once they are written as a coordinate.')
    return checks.name("A joint", word, error=ModelError)


def _add_losses(motion: _Motion, word: str, joint: _Joint) -> None:
    """Add damping and friction of a joint.

    The torque is -d q' - f sign(q'). Coefficients that are not zero become parameters.
    """
    unit = ("N s/m", "N") if joint.kind == "prismatic" else ("N m s/rad", "N m")
    torque: sp.Expr = sp.Integer(0)
    if joint.damping:
        motion.parameters.append(Parameter(f"d_{word}", joint.damping, unit[0], description=f"damping of {word}"))
        torque -= symbol(f"d_{word}") * rate(word)
    if joint.friction:
        motion.parameters.append(Parameter(f"f_{word}", joint.friction, unit[1], description=f"dry friction of {word}"))
        torque -= symbol(f"f_{word}") * sp.sign(rate(word))
    motion.friction[word] = torque


def _add_energy(motion: _Motion, name: str, inertial: ET.Element, frame: Frame) -> None:
    what = f'link "{checks.printable(name)}"'
    mass = inertial.find("mass")
    value = float(_numbers(None if mass is None else mass.get("value"), (0.0,), f"{what}, mass")[0])
    if value < 0:
        raise ModelError(f"{what} has the mass {value:g}; it must not be negative.")
    offset, own = _origin(inertial, what)
    turn, place, spin = frame
    centre = place + turn * offset
    velocity = sp.zeros(3, 1)
    for word, speed in zip(motion.coordinates, motion.speeds, strict=True):
        velocity += centre.diff(symbol(word)) * speed
    if value:
        word = "m_" + "_".join(p for p in "".join(c if c.isalnum() else "_" for c in name).split("_") if p)
        motion.parameters.append(Parameter(word, value, "kg", (0.0, math.inf), description=f"mass of {what}"))
        m = symbol(word)
        motion.lagrangian += m * (velocity.T * velocity)[0] / 2 - m * symbol("g") * centre[2]
    tensor = inertial.find("inertia")
    if tensor is not None:
        xx, xy, xz, yy, yz, zz = (
            _numbers(tensor.get(key), (0.0,), f"{what}, {key}")[0] for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        )
        inertia = sp.Matrix([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        local = (turn * own).T * spin
        motion.lagrangian += (local.T * inertia * local)[0] / 2
