"""Name buttons and fields in hints that name keys and commands.

Texts of the library are written for Python, study files and commands; a reader of the page has neither at hand.
"""

from __future__ import annotations

import html
import re

from kapitza.base.cures import in_study

WORDS: tuple[tuple[str, str], ...] = (
    # What a verdict says next.
    (r"add the term to the equations as a second candidate \(\[\[model\]\]\) and run kapitza compare",
     'press "Add this term", or "Another candidate" under Model, and fit again'),
    (r"Hold a part of the recording back \(hold_back = 0\.2\)", 'Set "share held back" above to 0.2'),
    (r"Test the model on another recording: kapitza validate STUDY OTHER\.csv\. Then use it: kapitza predict, "
     r"follow, frequency-response, export\.",
     "Test the model on another recording. Then use it: follow its motions under Diagram, export it under "
     "Report and files."),
    # Bad samples, gaps.
    (r'keep them by (?:bad_samples = "keep" in \[data\]|record\.with_attributes\(bad_samples="keep"\))',
     'choose "kept" for bad samples under Recording'),
    (r'[Cc]ut it there: gaps = "split"(?: in \[data\])?', 'Choose "cut there" for gaps under Recording'),
    (r'gaps = "split"(?: in \[data\])?', '"cut there" for gaps under Recording'),
    # Commands.
    (r"`kapitza new FILE`, then `kapitza identify STUDY`", "write its equation under Model, then press Fit"),
    (r"(?:run the study again, )?`kapitza identify STUDY`", "press Fit"),
    (r"`?kapitza identify(?: [\w.-]+)?`?", "the button Fit"),
    (r"`kapitza orbits FILE`|kz\.find_orbits\(record\)", '"Find orbits" under Orbits'),
    (r"`kapitza suggest`|kz\.suggest(?:\(\w*\))?", '"What is missing?" after a fit'),
    (r"`?kapitza inspect(?: [\w.-]+)?`?", "Inspect"),
    (r"`?kapitza compare(?: [\w.-]+)?`?", "Fit with several candidates"),
    # Keys that have a field.
    (r"leave it out of free, or write it into an equation", "untick or remove it, or write it into an equation"),
    (r"values = \{(\w+) = \.\.\.\} in \[model\]", r'the start of \1 under Model'),
    (r"\[fit\.priors\] (\w+) = \{mean = \.\.\., deviation = \.\.\.\}", r'mean and deviation of \1 under Model'),
    (r'method = "(\w+)"', r'the method \1'),
    (r"max_period = (\d+)", r'\1 as the longest period'),
    (r"every = (\d+)(?: in \[data\])?", r'every \1th sample under Recording'),
    (r"units = \{[^}]*\}(?: in \[data\])?", "the unit of the column under Recording"),
    (r"angles = \[[^\]]*\](?: in \[data\])?", 'the mark "angle" of the column under Recording'),
    (r"ignore = \[[^\]]*\](?: in \[data\])?", 'the role "ignored" under Recording'),
    (r"drive = \[[^\]]*\](?: in \[data\])?", 'the role "drives" under Recording'),
    (r"channels = (?:\{[^}]*\}|\[[^\]]*\]|\.\.\.)(?: in \[data\])?", "the columns under Recording"),
)  # fmt: skip
"""Texts about keys, commands and Python, and the same about the page; the first that fits is used."""

SECTION = r"\[(?:data|model|fit|output)[\w.]*\]"
KEY = re.compile(rf"(?:{SECTION} )?\b\w+ = [^,;.\s]+(?: in {SECTION})?|in {SECTION}")

TEXT = " (in the text under Report and files)"


def with_code(text: str) -> str:
    """Return a text as HTML, what stands between backticks as code.

    >>> with_code("Press `a < b`.")
    'Press <code>a &lt; b</code>.'
    """
    return re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text))


def in_page(text: object) -> str:
    """Return a hint in the words of the page.

    Keys that have no field are said to stand in the text of the study.
    """
    said = in_study(text)
    for pattern, words in WORDS:
        said = re.sub(pattern, words, said)
    if re.search(SECTION, said) and TEXT not in said:
        found = list(KEY.finditer(said))
        if found:
            end = found[-1].end()
            said = said[:end] + TEXT + said[end:]
    return said
