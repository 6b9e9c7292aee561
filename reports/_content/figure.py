"""A figure of the report: a drawing, what it shows in words, and its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from reports._content.table import Table


@dataclass(frozen=True)
class Figure:
    """svg: in placeholder colours, see `svg`. alternative: for those who do not see it.

    first: whether it is one of those that lead.
    """

    title: str
    caption: str
    alternative: str
    svg: str
    table: Table
    first: bool = False
