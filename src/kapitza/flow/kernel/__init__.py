"""Compiled stepper for models with switches and impacts.

It consists of tapes, the library, and the engine around them.
"""
