"""Periodic orbits of the Lorenz system by their words, against the periods of D. Viswanath."""

from __future__ import annotations

from harness import Comparison, comparison_table, markdown_table

import kapitza as kz

# D. Viswanath, Symbolic dynamics and periodic orbits of the Lorenz attractor, Nonlinearity 16 (2003) 1035, 14 digits.
PUBLISHED = {
    "AB": 1.5586522107162,
    "AAB": 2.3059072639398,
    "ABB": 2.3059072639398,
    "AAAB": 3.0235837034339,
    "AABB": 3.0842767758221,
    "ABBB": 3.0235837034339,
    "AAAAB": 3.7256417715558,
    "AAABB": 3.8202541634368,
    "AABAB": 3.8695391125646,
    "AABBB": 3.8202541634368,
}
WORDS = {2: 1, 3: 2, 4: 3, 5: 6, 6: 9}
"""Primitive cyclic words of two letters, by length; all of them are realised up to this length."""


def main() -> str:
    orbits = kz.find_orbits(kz.library.lorenz(), max_period=6, section="z - 27")
    periods = {orbit.code.replace("L", "A").replace("R", "B"): orbit for orbit in orbits}
    rows = [
        Comparison(f"T of {word}", f"{value:.13f}", f"{periods[word].period:.13f}" if word in periods else "-", "1e-12",
                   word in periods and abs(periods[word].period - value) < 1e-12)
        for word, value in PUBLISHED.items()
    ]  # fmt: skip
    for length, count in WORDS.items():
        found = sum(len(word) == length for word in periods)
        rows.append(Comparison(f"words of length {length}", count, found, "all", found == count))
    trivial = max(o.certificate.trivial for o in orbits)
    determinant = max(o.certificate.determinant for o in orbits)
    rows.append(Comparison("largest trivial multiplier defect", "-", trivial, "1e-8", trivial < 1e-8))
    rows.append(Comparison("largest determinant defect", "-", determinant, "1e-8", determinant < 1e-8))
    table = [(w, f"{o.period:.12f}", f"{abs(o.multipliers[0]):.6f}", f"{o.closure:.1e}") for w, o in periods.items()]
    return (
        "# Lorenz orbits by their words\n\nσ = 10, ρ = 28, β = 8/3; A for x < 0, B for x > 0, at rising crossings of "
        "z = 27.\n\n" + comparison_table(rows, "published") + "\n\n"
        + markdown_table(["word", "period", "largest multiplier", "closure"], table)
    )  # fmt: skip
