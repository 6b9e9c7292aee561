"""A figure of the report: a drawing, what it shows in words, and its numbers."""

from __future__ import annotations

import base64
import html
from dataclasses import dataclass
from typing import SupportsIndex, overload

from reports._content.table import Table

_WIDTH = "46rem"  # in a notebook: about a column of text


@dataclass(frozen=True, repr=False)
class Figure:
    """A drawing, its words and its numbers; in a notebook it shows itself.

    svg: in placeholder colours, see `svg`. alternative: for those who do not see it.
    first: whether it is one of those that lead.
    """

    title: str
    caption: str
    alternative: str
    svg: str
    table: Table
    first: bool = False

    @property
    def picture(self) -> str:
        """A whole SVG document, dark on white, in the font of the printed report."""
        return self.svg.replace("<svg ", '<svg font-family="Libertinus Serif" ', 1)

    def __repr__(self) -> str:
        return self.alternative

    def _repr_html_(self) -> str:
        """Return an image that shares no name with other figures and runs nothing."""
        coded = base64.b64encode(self.picture.encode("utf-8")).decode("ascii")
        words, caption = html.escape(self.alternative), html.escape(self.caption)
        style = f"background:#fff;width:100%;max-width:{_WIDTH}"
        image = f'<img style="{style}" alt="{words}" src="data:image/svg+xml;base64,{coded}"/>'
        title = f"<strong>{html.escape(self.title)}</strong>"
        return f"<figure>{title}<br/>{image}<figcaption>{caption}</figcaption></figure>"


class Figures(tuple[Figure, ...]):
    """All figures of a run, one below the other; each is one of the sequence."""

    __slots__ = ()

    @overload
    def __getitem__(self, place: SupportsIndex) -> Figure: ...

    @overload
    def __getitem__(self, place: slice) -> Figures: ...

    def __getitem__(self, place: SupportsIndex | slice) -> Figure | Figures:
        chosen = super().__getitem__(place)
        return Figures(chosen) if isinstance(chosen, tuple) else chosen

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))

    def _repr_html_(self) -> str:
        return "".join(figure._repr_html_() for figure in self)
