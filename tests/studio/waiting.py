"""Wait for the page of the studio in a browser."""

import tomllib

DRAWN = "() => Number(document.querySelector('.kz-recording')?.dataset.drawn) > 0"
EQUATIONS = "textarea[aria-label='Equations of motion']"


def settled(page):
    """Wait until the study is checked and the recording drawn."""
    page.wait_for_selector("text=ready to run")
    page.wait_for_function(DRAWN)


def until_written(page, path, expression):
    """Wait until the study file has what was typed.

    The waiting is done in the page, so that it can work meanwhile.
    """
    for _ in range(600):
        if expression(tomllib.loads(path.read_text(encoding="utf-8"))):
            return
        page.wait_for_timeout(50)
    raise AssertionError(path.read_text(encoding="utf-8"))
