"""A test double of heyoka whose code rounds otherwise, as that of another processor does.

`pytest --other-code` compiles with the SLP vectoriser, which orders sums differently: results differ in the last bits
(heyoka has no switch for the processor that it compiles for).
"""

import functools
from typing import Any

import heyoka


def install() -> None:
    """Replace what compiles in this process; call it before a model is compiled."""
    for name in ("taylor_adaptive", "taylor_adaptive_batch", "cfunc"):
        setattr(heyoka, name, _vectorised(getattr(heyoka, name)))


def _vectorised(plain: Any) -> Any:
    @functools.wraps(plain)
    def other(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **{"slp_vectorize": True, **kwargs})

    return other
