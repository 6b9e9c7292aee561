"""Matplotlib's SVG for a page: no metadata or unused names, and colours that the page sets.

The page's policy forbids inline styles, so they become attributes.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
INK, MUTED, RULE, ACCENT, PAPER = "#1d2024", "#575d66", "#d9d9d3", "#1f5673", "#ffffff"
ALARM = "#9b2c1f"
_VARIABLES = {
    INK: "ink", MUTED: "muted", RULE: "rule", ACCENT: "accent", PAPER: "paper", ALARM: "alarm"
}  # fmt: skip
_STYLES = {
    "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap",
    "fill-opacity", "stroke-opacity", "opacity", "text-anchor", "font-size", "font-weight",
}  # fmt: skip
_DROPPED = ("metadata", "style", "clipPath")
_LONG = re.compile(r"-?\d+\.\d{3,}")
_FONT = re.compile(r"(bold|\d00)? ?([\d.]+)px")  # matplotlib before 3.10


def tidy(source: str) -> str:
    """Keep shapes, texts and the attributes that show, with numbers of at most two decimals."""
    root = ElementTree.fromstring(source)
    _clean(root, {element.get(_LINK, "")[1:] for element in root.iter()})
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("fill", "none")  # so that outlines need not say it
    ElementTree.register_namespace("", SVG)
    return ElementTree.tostring(root, encoding="unicode")


def _clean(element: ElementTree.Element, linked: set[str]) -> None:
    element.tail = None
    element.text = element.text if element.tag.endswith("}text") else None
    attributes = {**element.attrib, **_presentation(element.attrib.pop("style", ""))}
    attributes["href"] = attributes.pop(_LINK, "")
    attributes["id"] = attributes.get("id", "") if attributes.get("id") in linked else ""
    attributes["transform"] = re.sub(r"rotate\(-?0 .*", "", attributes.get("transform", ""))
    for name in ("style", "clip-path"):
        attributes.pop(name, None)
    element.attrib.clear()
    element.attrib.update(
        {name: " ".join(_LONG.sub(_short, value).split())
         for name, value in attributes.items() if value}
    )  # fmt: skip
    children: list[ElementTree.Element] = []
    for child in element:
        if not child.tag.endswith(_DROPPED):
            _clean(child, linked)
            children += [child] if child.attrib or child.tag.endswith("defs") else child
    element[:] = [child for child in children if len(child) or child.attrib.keys() - {"d"}]


def _presentation(style: str) -> dict[str, str]:
    pairs = [part.partition(":") for part in style.split(";")]
    values = {key.strip(): value.strip().removesuffix("px") for key, _, value in pairs}
    if font := _FONT.search(f"{values.get('font', '')}"):
        values |= {"font-size": font[2], "font-weight": font[1] or ""}
    return {key: value for key, value in values.items() if key in _STYLES and value != "none"}


def _short(match: re.Match[str]) -> str:
    return f"{round(float(match[0]), 2) + 0:.8g}"


def on_screen(svg: str) -> str:
    """Style for HTML: colours by CSS variables, and no namespace."""
    for colour, name in _VARIABLES.items():
        svg = svg.replace(f'"{colour}"', f'"var(--{name})"')
    return svg.replace(f' xmlns="{SVG}"', "")
