"""The packages behind samples of a posterior, which are an extra."""

from __future__ import annotations

import warnings
from typing import Any

from kapitza.errors import KapitzaError


def bayes_packages() -> tuple[Any, Any]:
    """ArviZ and emcee."""
    try:
        with warnings.catch_warnings():
            # ArviZ announces its own refactoring at every import.
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
        import emcee
    except ImportError as error:
        raise KapitzaError(f'{error.name} is missing: install it with pip install "kapitza[bayes]".') from None
    return arviz, emcee
