"""Show tables with rows to choose.

Rows are chosen by mouse or keyboard and can be marked from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

BODY = r"""
<q-tr :props="props" tabindex="0" :aria-selected="props.row._chosen ? 'true' : 'false'"
      :class="{'kz-chosen': props.row._chosen, 'kz-out': props.row._out}" class="cursor-pointer"
      @click="() => $parent.$emit('pick', props.row._row)"
      @keydown.enter="() => $parent.$emit('pick', props.row._row)"
      @mouseenter="() => $parent.$emit('over', props.row._row)">
  <q-td v-for="col in props.cols" :key="col.name" :props="props">{{ col.value }}</q-td>
</q-tr>
"""


def shown(value: Any) -> str:
    """Return a cell as text.

    It has six digits; unknown values are empty.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class LinkedTable:
    """Show a table over rows of values.

    `pick` and `over` are called with the number of a row.
    """

    def __init__(
        self,
        columns: Sequence[str],
        pick: Callable[[int], Any] | None = None,
        over: Callable[[int], Any] | None = None,
        height: int = 320,
    ):
        names = [{"name": name, "label": name, "field": name, "align": "left"} for name in columns]
        self.columns = list(columns)
        self.element = ui.table(columns=names, rows=[], row_key="_row", pagination=0)
        self.element.props("flat dense hide-bottom").classes("kz-table w-full")
        self.element.style(f"max-height: {height}px")
        self.element.add_slot("body", BODY)
        if pick is not None:
            self.element.on("pick", lambda event: pick(int(event.args)))
        if over is not None:
            # A hand that crosses the table must not send a message for every row.
            self.element.on("over", lambda event: over(int(event.args)), throttle=0.15)
        self._rows: list[dict[str, Any]] = []

    def fill(self, rows: Sequence[Mapping[str, Any]], chosen: int | None = None, out: Sequence[int] = ()) -> None:
        """Show other rows.

        chosen: the marked one, out: those that are struck through.
        """
        self._rows = [
            {name: shown(row.get(name)) for name in self.columns}
            | {"_row": number, "_chosen": number == chosen, "_out": number in out}
            for number, row in enumerate(rows)
        ]
        self.element.rows = self._rows
        self.element.update()

    def choose(self, chosen: int | None) -> None:
        """Mark one row."""
        for row in self._rows:
            row["_chosen"] = row["_row"] == chosen
        self.element.rows = self._rows
        self.element.update()
        self._show_chosen()

    def _show_chosen(self) -> None:
        # The rows are drawn after this message has arrived.
        ui.run_javascript(
            f"setTimeout(() => document.querySelector('#c{self.element.id} .kz-chosen')"
            "?.scrollIntoView({block: 'nearest'}), 100)"
        )
