"""Strategies that damage files and numbers: bytes flipped, cut, doubled; words replaced by what parsers hate."""

from __future__ import annotations

from hypothesis import strategies as st

WORDS = [
    *(
        "nan",
        "inf",
        "-inf",
        "1e400",
        "-0",
        "9" * 400,
        "1e-320",
        "0x10",
        "1_000",
        "true",
        "null",
        "''",
        "[]",
        "{}",
        "(1,)",
    ),
    *(
        "__import__('os').system('touch owned')",
        "${HOME}",
        "../../../etc/passwd",
        "/dev/zero",
        "%s%n",
        "\x1b[2J",
        "\x00",
    ),
    *(
        "\u202e",
        "ａ",
        "µ",
        "\ud7ff",
        "💥",
        "1,5",
        "\t",
        '"',
        "'",
        "\\",
        "#",
        "= =",
        "2024-01-01",
        "12:00:00",
        "x" * 5000,
    ),
    *("max(abs(x)-a, 0)", "Piecewise((x, x>0), (0, True))", "x**x**x**x", "1/0", "acos(2)", "sqrt(-1)", "(" * 200),
]

WOUNDS = (0, 1, 1, 1, 1, 2, 2, 3, 6)
"""How many wounds a file gets: most get one, which leaves much of it to be used."""

words = st.sampled_from(WORDS)
texts = st.one_of(st.text(max_size=40), words)
numbers = st.one_of(
    st.floats(),
    st.integers(-3, 3),
    st.sampled_from([0, -1, 1e300, 1e-300, float("nan"), float("inf"), 10**400, 2**63, -(2**63), 1e-320, True, None]),
)
values = st.recursive(
    st.one_of(numbers, texts, st.binary(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def damaged_bytes(draw: st.DrawFn, originals: list[bytes]) -> bytes:
    """One of the files with a few wounds."""
    content = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.sampled_from(WOUNDS))):
        if not content:
            break
        # Half of the wounds lie near the beginning, where the headers are.
        reach = len(content) - 1 if draw(st.booleans()) else min(len(content) - 1, 600)
        at = draw(st.integers(0, reach))
        wound = draw(st.sampled_from(["flip", "cut", "insert", "double", "zero", "large", "truncate", "splice"]))
        if wound == "flip":
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif wound == "cut":
            del content[at : at + draw(st.integers(1, 40))]
        elif wound == "insert":
            content[at:at] = draw(st.one_of(st.binary(min_size=1, max_size=20), words.map(lambda w: w.encode())))
        elif wound == "double":
            content[at:at] = content[at : at + draw(st.integers(1, 60))]
        elif wound == "zero":
            content[at : at + 8] = bytes(8)
        elif wound == "large":
            content[at : at + 8] = b"\xff" * draw(st.integers(1, 8))
        elif wound == "truncate":
            del content[at:]
        else:
            other = draw(st.sampled_from(originals))
            content[at : at + 64] = other[at : at + 64]
    return bytes(content)


@st.composite
def damaged_text(draw: st.DrawFn, originals: list[str]) -> str:
    """One of the texts with lines and words cut, doubled, moved, replaced."""
    lines = draw(st.sampled_from(originals)).split("\n")
    for _ in range(draw(st.sampled_from(WOUNDS))):
        at = draw(st.integers(0, len(lines) - 1))
        wound = draw(st.sampled_from(["drop", "double", "swap", "word", "value", "letter"]))
        if wound == "drop" and len(lines) > 1:
            del lines[at]
        elif wound == "double":
            lines.insert(at, lines[at])
        elif wound == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif wound == "word":
            parts = lines[at].split(" ")
            parts[draw(st.integers(0, len(parts) - 1))] = draw(texts)
            lines[at] = " ".join(parts)
        elif wound == "value":
            head, equals, _ = lines[at].partition("=")
            lines[at] = f"{head}{equals} {draw(st.one_of(words, values.map(repr)))}"
        else:
            line = lines[at]
            place = draw(st.integers(0, len(line)))
            lines[at] = line[:place] + draw(st.characters()) + line[place + draw(st.integers(0, 1)) :]
    return "\n".join(lines)
