"""The figures of a run, which show themselves in a notebook."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from reports._figures import svg

_WIDTH = "46rem"  # of a figure: about a column of text


@dataclass(frozen=True)
class Figure:
    """A drawing, and what it shows in words; in a notebook it shows itself.

    svg: in neutral colours, to be themed; `picture` is a file's text.
    """

    title: str
    caption: str
    alternative: str
    svg: str

    @property
    def picture(self) -> str:
        """A whole SVG document, dark on white."""
        return svg.on_paper(self.svg)

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


@dataclass(frozen=True)
class Figures(Sequence[Figure]):
    """All figures of a run, one below the other; each is one of the sequence."""

    drawn: tuple[Figure, ...]

    def __len__(self) -> int:
        return len(self.drawn)

    def __iter__(self) -> Iterator[Figure]:
        return iter(self.drawn)

    @overload
    def __getitem__(self, place: int) -> Figure: ...

    @overload
    def __getitem__(self, place: slice) -> Figures: ...

    def __getitem__(self, place: int | slice) -> Figure | Figures:
        return Figures(self.drawn[place]) if isinstance(place, slice) else self.drawn[place]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.drawn))

    def _repr_html_(self) -> str:
        return "".join(figure._repr_html_() for figure in self.drawn)
