from collections.abc import Callable

TYPE_DATASET: int

class ObjInfo:
    type: int

def visit(where: object, visit: Callable[[bytes, ObjInfo], object], *, info: bool = ...) -> object: ...
