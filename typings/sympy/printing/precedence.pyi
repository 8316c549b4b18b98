from sympy import Basic

PRECEDENCE: dict[str, int]

def precedence(item: Basic) -> int: ...
