"""Quasi-periodic motions on tori.

Tori, their rotation numbers, and the tongues in which they are phase-locked.
"""

from kapitza.continuation.tori.follow import follow_torus, tori
from kapitza.continuation.tori.nouns import Torus, TorusBranch
from kapitza.continuation.tori.tongues import Tongue, tongues

__all__ = ["Tongue", "Torus", "TorusBranch", "follow_torus", "tongues", "tori"]
