"""Quasi-periodic motions on tori.

Tori, their rotation numbers, and the tongues in which they are phase-locked.
"""

# pyright: reportUnusedImport=false

from kapitza.continuation.tori.follow import follow_torus, tori
from kapitza.continuation.tori.nouns import Torus, TorusBranch
from kapitza.continuation.tori.tongues import Tongue, tongues
