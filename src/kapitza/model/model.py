"""Model: the equations of motion, written once."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from kapitza.base import checks
from kapitza.base.argument_checks import Anything, MaybeMissing
from kapitza.base.arrays import Array
from kapitza.base.cures import Do, Set
from kapitza.base.display import Shown
from kapitza.base.units import rate_unit
from kapitza.errors import ModelError, nearest_name
from kapitza.model.checks import check_model
from kapitza.model.delays import Delayed, delayed_terms, is_delayed
from kapitza.model.excitation import stated_by_waves
from kapitza.model.linear import Linearisation, equilibrium, linear_combinations, linear_terms, linearise
from kapitza.model.measured import Signal
from kapitza.model.parts import Coordinate, Excitation, Impact, Parameter, Prior, Symmetry
from kapitza.model.structure import Structure, in_base, solve_derived, states_of, structure_of
from kapitza.model.symbols import Expression, symbol

if TYPE_CHECKING:
    from kapitza.model.build import Written
    from kapitza.model.modal import ModalReduction

__all__ = ["Coordinate", "Excitation", "Impact", "Model", "Parameter", "Prior", "Signal", "Symmetry"]


@dataclass(frozen=True)
class Model(Shown):
    """Equations of motion with parameters.

    It holds residuals g(u, u', u'', t, θ) = 0, or a map x -> F(x, θ).

    equations: one residual per coordinate for flows; for maps the new value of each state.
    partition: expressions whose signs cut the section into the cells of the symbolic code; `letters` names the cells
    in binary order of the signs (first expression slowest, positive first).
    start: a sensible initial state for simulations.
    name, description, source: for people. coordinates: the unknowns; excitation: its period and measured signals;
    outputs: what sensors read, by name; invariants: conserved quantities; impacts: walls; symmetries: maps of the state
    under which the equations stay the same; is_map: discrete in time.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1})
    >>> model.states
    ('x', "x'")
    >>> model.with_values(c=0.2).values["c"]
    0.2
    """

    name: str
    coordinates: tuple[Coordinate, ...]
    equations: tuple[Expression, ...]
    parameters: tuple[Parameter, ...] = ()
    excitation: Excitation | None = None
    outputs: Mapping[str, Expression] = field(default_factory=dict[str, sp.Expr])
    invariants: Mapping[str, Expression] = field(default_factory=dict[str, sp.Expr])
    impacts: tuple[Impact, ...] = ()
    symmetries: tuple[Symmetry, ...] = ()
    partition: tuple[Expression, ...] = ()
    letters: str = ""
    start: Mapping[str, float] = field(default_factory=dict[str, float])
    is_map: bool = False
    description: str = ""
    source: str = ""

    def __post_init__(self):
        check_model(self)

    def __hash__(self) -> int:
        return hash((self.name, self.coordinates, self.equations, self.parameters))

    @classmethod
    def from_equations(
        cls,
        equations: str | Expression | Iterable[str | Expression],
        coordinates: Iterable[str | sp.Basic | Coordinate] | None = None,
        angles: Iterable[str] = (),
        parameters: Mapping[str, Written | Parameter] | Iterable[Parameter | str | sp.Basic] | None = None,
        **parts: Anything,
    ) -> Model:
        """Return a model from residual equations.

        The equations are text in plain notation, or SymPy.

        Text: "x'' + 2*d*x' + x = F*cos(w*t)"; primes mark derivatives and thereby the coordinates. SymPy: in the
        symbols of `kapitza.model` (symbol("x"), rate("x", 2)), or with functions of time, x(t).diff(t, 2).
        coordinates: names in order, or Coordinate objects (default: in order of appearance).
        parameters: {name: value}, {name: "expression of others"}, {name: Parameter(...)}, or a list of Parameters.
        parts: period ("2*pi/w"), signals, outputs, invariants, impacts, symmetries, partition, letters, start, name,
        description, source; expressions in any of them may be text.
        """
        from kapitza.model.build import from_equations

        return from_equations(equations, coordinates, angles, parameters, **parts)

    @classmethod
    def from_lagrangian(
        cls,
        lagrangian: str | Expression,
        coordinates: Iterable[str | sp.Basic | Coordinate],
        angles: Iterable[str] = (),
        parameters: Mapping[str, Written | Parameter] | Iterable[Parameter | str | sp.Basic] | None = None,
        forces: Mapping[str, Written] | None = None,
        dissipation: Written = 0,
        **parts: Anything,
    ) -> Model:
        """Return a model from a Lagrangian L(q, q', t).

        For each coordinate q: d/dt ∂L/∂q' - ∂L/∂q + ∂R/∂q' = Q.

        forces: generalised forces Q per coordinate; dissipation: the Rayleigh function R(q, q'). The rest is as in
        `from_equations`.
        """
        from kapitza.model.build import from_lagrangian

        return from_lagrangian(lagrangian, coordinates, angles, parameters, forces, dissipation, **parts)

    @classmethod
    def from_hamiltonian(
        cls,
        hamiltonian: str | Expression,
        positions: Sequence[str | sp.Basic],
        momenta: Sequence[str | sp.Basic],
        angles: Iterable[str] = (),
        parameters: Mapping[str, Written | Parameter] | Iterable[Parameter | str | sp.Basic] | None = None,
        forces: Mapping[str, Written] | None = None,
        **parts: Anything,
    ) -> Model:
        """Return a model from a Hamiltonian H(q, p, t).

        q' = ∂H/∂p, p' = -∂H/∂q + Q. States: positions, then momenta.

        Without forces Q and explicit time, H becomes the invariant "H". The rest is as in `from_equations`.
        """
        from kapitza.model.build import from_hamiltonian

        return from_hamiltonian(hamiltonian, positions, momenta, angles, parameters, forces, **parts)

    @classmethod
    def from_matrices(
        cls,
        M: Anything,
        C: Anything,
        K: Anything,
        coordinates: Iterable[str | sp.Basic | Coordinate] | None = None,
        parameters: Mapping[str, Written | Parameter] | Iterable[Parameter | str | sp.Basic] | None = None,
        forces: Mapping[str, Written] | None = None,
        nonlinear: Mapping[str, Written] | None = None,
        modes: int | ModalReduction | None = None,
        **parts: Anything,
    ) -> Model:
        """Return a model from mass, damping and stiffness matrices.

        The model is M x'' + C x' + K x + n(x, x') = f(t), as finite-element programs give it.

        M, C, K: (n, n) numbers (arrays or scipy.sparse), entries with parameters ([["k1 + k2", "-k2"], …]), or sums
        {"E": K1, "rho*g": K2} of parameters times matrices; C may be None, or {"alpha": M, "beta": K} (Rayleigh).
        coordinates: names in the order of the rows (default x1, x2, …). forces: f on the right of the equation of a
        coordinate, {"x1": "F*cos(w*t)"}; nonlinear: n on the left, {"x3": "k3*x3**3"}.
        modes: keep so many of the lowest modes of the linear part at the given values (or a `modal_reduction`): the
        coordinates are then amplitudes q1, q2, …, the displacements outputs of the model, and its description says what
        was left out. The rest is as in `from_equations`.
        """
        from kapitza.model.matrices import from_matrices

        return from_matrices(M, C, K, coordinates, parameters, forces, nonlinear, modes, **parts)

    @classmethod
    def from_sympy(
        cls,
        method: Anything,
        parameters: Mapping[str, Written | Parameter] | Iterable[Parameter | str | sp.Basic] | None = None,
        angles: Iterable[str] = (),
        **parts: Anything,
    ) -> Model:
        """Return a model from `KanesMethod` or `LagrangesMethod`.

        Both are of sympy.physics.mechanics. Kane's equations must have been formed. Speeds u = q' become rates of the
        coordinates; other speeds become separate states. Multipliers, dependent coordinates and speeds are refused.
        Without `parameters` all constants are parameters without a value. The rest is as in `from_equations`.
        """
        from kapitza.model.mechanics import from_sympy

        return from_sympy(method, parameters, angles, **parts)

    @classmethod
    def from_urdf(
        cls, path: str | os.PathLike[str], forces: Mapping[str, Written] | None = None, **parts: Anything
    ) -> Model:
        """Return the model of a linkage described in URDF.

        The linkage is a serial chain or tree of rigid links.

        Coordinates are the joints that move. Masses (m_LINK), damping (d_JOINT), dry friction (f_JOINT) and gravity g
        along -z are parameters; inertias are numbers. forces: torques or forces per joint. Refused: closed loops,
        floating and planar joints, mimicking joints, XML with entities. The rest is as in `from_equations`.
        """
        from kapitza.model.urdf import from_urdf

        return from_urdf(path, forces, **parts)

    @classmethod
    def from_map(
        cls,
        equations: Mapping[str, Written],
        angles: Iterable[str] = (),
        parameters: Mapping[str, Written | Parameter] | Iterable[Parameter | str | sp.Basic] | None = None,
        **parts: Anything,
    ) -> Model:
        """Return the model of a discrete map.

        The map x -> F(x, θ) is given as {state: its new value}. The rest is as in `from_equations`.
        """
        from kapitza.model.build import from_map

        return from_map(equations, angles, parameters, **parts)

    @cached_property
    def states(self) -> tuple[str, ...]:
        """Return the names of the states.

        All coordinates come first, then the rates of the second-order ones.
        """
        return tuple(c.name for c in self.coordinates) if self.is_map else states_of(self.coordinates)

    @property
    def units(self) -> dict[str, str]:
        """Return the unit of every state.

        It is that of its coordinate, per second for a rate; "" where none is declared.
        """
        own = {c.name: c.unit for c in self.coordinates}
        return {name: own[name] if name in own else rate_unit(own[name.rstrip("'")]) for name in self.states}

    @cached_property
    def angles(self) -> tuple[bool, ...]:
        """For each state, whether it lives on a circle."""
        flags = {c.name: c.angle for c in self.coordinates}
        return tuple(flags.get(state, False) for state in self.states)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of the independent parameters.

        They are in order.
        """
        return tuple(p.name for p in self.parameters if p.expression is None)

    @cached_property
    def values(self) -> dict[str, float]:
        """Return the value of every parameter.

        Derived parameters are included; NaN where no value was given.
        """
        independent = {p.name: float(p.value) for p in self.parameters if p.expression is None}
        if len(independent) == len(self.parameters):
            return independent
        known: dict[sp.Symbol, Expression] = {
            symbol(name): sp.Float(value, 17) for name, value in independent.items() if not math.isnan(value)
        }
        derived: dict[str, float] = {}
        written, long = solve_derived(self.parameters)
        for s, expression in (*written.items(), *long):
            result = sp.N(expression.xreplace(known), 17)
            if result.is_number and long:
                known[s] = result
            derived[s.name] = _real_value(s.name, result) if result.is_number else math.nan
        return {p.name: derived[p.name] if p.name in derived else independent[p.name] for p in self.parameters}

    @property
    def vector(self) -> Array:
        """Return the values of the independent parameters.

        They are in the order of `names`.
        """
        result = np.array([self.values[name] for name in self.names])
        missing = [name for name, value in zip(self.names, result, strict=True) if math.isnan(value)]
        if missing:
            cure = Set("values", **dict.fromkeys(missing, ...))
            raise ModelError(f'Model "{self.name}": no value for {", ".join(missing)}; set it by {cure}.')
        return result

    @cached_property
    def period(self) -> float | None:
        """Return the period of the excitation.

        It holds at the present values; None for an autonomous model, a map or a signal that does not repeat.
        """
        if self.excitation is None or self.excitation.period is None:
            return None
        values = self.values
        used = sorted(s.name for s in self.excitation.period.free_symbols)
        known = {symbol(name): sp.Float(values[name], 17) for name in used if name in values}
        result = sp.N(self.excitation.period.xreplace(known), 17)
        period = _real_value("period", result) if result.is_number else math.nan
        if not (math.isfinite(period) and period > 0):
            given = ", ".join(f"{name} = {values[name]:g}" for name in used)
            raise ModelError(
                f'Model "{self.name}": the period {self.excitation.period} is {period:g}'
                f"{' at ' + given if given else ''}; it must be positive and finite."
            )
        for signal in self.excitation.signals:
            assert signal.period is not None
            ratio = period / signal.period
            # Periods are decimal numbers: their ratio is whole up to rounding.
            if abs(ratio - round(ratio)) > 1e-9 * ratio or round(ratio) < 1:
                raise ModelError(
                    f'Model "{self.name}": the period is {period:.12g} but signal "{signal.name}" repeats after '
                    f"{signal.period:.12g}; the period must be a whole multiple of it."
                )
        return period

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Return the measured excitations.

        They occur in the equations under their names.
        """
        return () if self.excitation is None else self.excitation.signals

    @property
    def reach(self) -> tuple[float, float]:
        """Return the span in which all signals are known.

        It is (first time, last time), infinite where the signals repeat.
        """
        spans = [signal.reach for signal in self.signals]
        return max((low for low, _ in spans), default=-math.inf), min((high for _, high in spans), default=math.inf)

    def within_reach(self, times: Array) -> Array:
        """Return the times, clipped to the measured signals."""
        return np.clip(times, *self.reach)

    def needs_repetition(self, what: str) -> None:
        """Refuse a model whose measured drive has no period.

        what: the thing that would need a period, in the plural.
        """
        for signal in self.signals:
            if signal.period is None:
                low, high = signal.reach
                raise ModelError(
                    f'Model "{self.name}": its drive "{signal.name}" was measured from {low:.6g} to {high:.6g} s and '
                    f"has no period, so that it has no {what}. Give the signal its period if it repeats, or replace it "
                    f"by a formula in t."
                )

    def needs_period(self, what: str) -> None:
        """Refuse a model whose equations hold the time while no period of the excitation is stated.

        what: the thing that would need a period, in the plural.
        """
        self.needs_repetition(what)
        if self.excitation is None and not self.is_map and not self.structure.is_autonomous:
            period = stated_by_waves(self.equations, self.states)
            python, study = 'period="…"', 'excitation = {period = "…"}'
            how = f"{Do(python, study)} in the model, … being its period in s"
            if period is not None:
                python, study = f'period="{period}"', f'excitation = {{period = "{period}"}}'
                how = f"{Do(python, study)} in the model"
            raise ModelError(
                f'The equations of "{self.name}" hold the time t, but no period of the excitation is stated, so that '
                f"it has no {what}: state {how}."
            )

    @cached_property
    def delays(self) -> tuple[Delayed, ...]:
        """Return the past values in the equations.

        An example is y'(t - tau); empty for ordinary models.
        """
        if self.is_map or not any(is_delayed(s) for e in self.equations for s in e.free_symbols):
            return ()
        names = [p.name for p in self.parameters]
        return delayed_terms(self.equations, self.states, names, lambda delay: in_base(self, delay))

    def parameter(self, name: str) -> Parameter:
        """Return the parameter of this name.

        It is independent or derived.
        """
        word = _canonical(name)
        for parameter in self.parameters:
            if parameter.name == word:
                return parameter
        known = [p.name for p in self.parameters]
        raise ModelError(
            f'Model "{self.name}" has no parameter "{checks.printable(str(name))}".{nearest_name(str(name), known)} '
            f"Its parameters: {', '.join(known) or 'none'}."
        )

    def check(self, name: str) -> Parameter:
        """Return the independent parameter of this name.

        Unknown and derived names are refused.
        """
        parameter = self.parameter(name)
        if parameter.expression is not None:
            sources = ", ".join(sorted(s.name for s in parameter.expression.free_symbols))
            raise ModelError(f'Parameter "{name}" is derived ({parameter.expression}); use {sources} instead.')
        return parameter

    def with_values(self, /, **values: MaybeMissing) -> Model:
        """Return the model with other values.

        values: of independent parameters.
        """
        given = checks.table("Values", values, error=ModelError)
        for name, value in given.items():
            self.check(name)
            given[name] = checks.number(f'Parameter "{name}"', value, finite=False, error=ModelError)
        # What does not depend on values is looked at once, not in every model of a sweep.
        _ = self.delays
        changed = object.__new__(Model)
        changed.__dict__.update(self.__dict__)
        parameters = tuple(
            dataclasses.replace(p, value=given[p.name]) if p.name in given else p for p in self.parameters
        )
        object.__setattr__(changed, "parameters", parameters)
        followed = ("values",) if self._period_ignores(given) else ("values", "period")
        for name in followed:
            changed.__dict__.pop(name, None)
        if not self.is_map:
            structure = changed.structure
            structure.check_mass(changed.values)
            if structure.needs_definite_mass and not structure.suits(
                np.nan_to_num([changed.values[n] for n in changed.names], nan=1.0)
            ):
                # Its steps rely on a definite mass matrix: take others.
                changed.__dict__.pop("structure")
        return changed

    def without_values(self) -> Model:
        """Return the model without values of its parameters.

        Results that are computed from it cannot depend on values by mistake.
        """
        blank = copy.copy(self)
        object.__setattr__(blank, "structure", self.structure)
        parameters = tuple(dataclasses.replace(p, value=math.nan) for p in self.parameters)
        object.__setattr__(blank, "parameters", parameters)
        for name in ("values", "period"):
            blank.__dict__.pop(name, None)
        return blank

    def _period_ignores(self, names: Iterable[str]) -> bool:
        """Return whether the period is independent of these parameters.

        False also where that is not certain.
        """
        if self.excitation is None:
            return True
        used = self.excitation.timing
        return used.isdisjoint(names) and used.issubset(self.names)

    @cached_property
    def structure(self) -> Structure:
        """Return the structure of the equations.

        Models that differ in values only share one structure.
        """
        structure = structure_of(self)
        if not self.is_map:
            structure.check_mass(self.values)
        return structure

    def state(self, values: Mapping[str, float] | None = None) -> Array:
        """Return a state vector from values by name.

        States left out are 0. Without values it is the start of the model.
        """
        values = checks.table("A state", self.start if values is None else values, error=ModelError)
        for name, value in values.items():
            if name not in self.states:
                raise ModelError(
                    f'Model "{self.name}" has no state "{name}".{nearest_name(name, self.states)} '
                    f"Its states: {', '.join(self.states)}."
                )
            values[name] = checks.number(f'The state "{name}"', value, error=ModelError)
        return np.array([values.get(name, 0.0) for name in self.states])

    def linear_terms(self, free: Iterable[str]) -> list[tuple[Expression, dict[str, Expression]]]:
        """Return each residual as rest + Σ θ·coefficient.

        The sum is over the free parameters: [(rest, {name: coefficient}), …].

        A derived parameter may be freed in place of its sources. Raises ModelError, which names the term, when a free
        parameter does not occur linearly.
        """
        return linear_terms(self, free)

    def linear_combinations(self, free: Iterable[str]) -> list[tuple[Expression, dict[Expression, Expression]]]:
        """Return each residual as rest + Σ c(θ)·coefficient.

        c: combinations of the free parameters such as k2/(m*l**2).
        """
        return linear_combinations(self, free)

    def equilibrium(self, near: Mapping[str, float] | None = None) -> dict[str, float]:
        """Return an equilibrium near a given state.

        There the rates, averaged over the excitation, vanish. near: 0 by default.
        """
        return equilibrium(self, near or {})

    def linearise(self, at: Mapping[str, float] | None = None) -> Linearisation:
        """Return the linear motion about an equilibrium.

        It has a matrix, eigenvalues, natural frequencies and damping ratios. at: 0 by default.
        """
        return linearise(self, at or {})

    def _repr_latex_(self) -> str:
        return f"$${self.to_latex()}$$"


def _canonical(name: object) -> object:
    return checks.canonical(name) if isinstance(name, str) else name


def _real_value(name: str, result: Expression) -> float:
    value = complex(result)
    if value.imag or not math.isfinite(value.real):
        raise ModelError(f'"{name}" evaluates to {result}, not a finite real number; check the values it is made of.')
    return value.real
