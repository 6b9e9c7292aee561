"""Matplotlib's SVG made small, inert and themeable: no ids, no styles, no foreign text.

Drawings use the sentinel colours of INK and write every text as a key `@0`, `@1`, …; here the
texts are put in their places, escaped, and the colours become a theme's.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
INK = {
    "ink": "#010101",
    "muted": "#020202",
    "rule": "#030303",
    "accent": "#040404",
    "paper": "#050505",
}
SCREEN = {name: f"var(--{name})" for name in INK}
PRINT = {
    "ink": "#1d2024",
    "muted": "#575d66",
    "rule": "#d9d9d3",
    "accent": "#1f5673",
    "paper": "#ffffff",
}
_KEPT = {
    "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-dashoffset", "stroke-linecap",
    "fill-opacity", "stroke-opacity", "opacity", "text-anchor", "font-size", "font-weight",
    "font-style",
}  # fmt: skip
_DROPPED = ("metadata", "style", "clipPath")
_LONG = re.compile(r"-?\d+\.\d{3,}")
_UNTURNED = re.compile(r"rotate\(-?0(\.0+)? ")
_FONT = re.compile(r"(bold|\d00)? ?([\d.]+)px")  # matplotlib before 3.10
_WRITTEN = re.compile(r"@(\d+)")


def tidy(source: str, texts: list[str], name: str) -> str:
    """The SVG without ids, styles, clips or metadata; numbers of two decimals; texts set."""
    root = ElementTree.fromstring(source)
    used = {e.get(f"{{{XLINK}}}href", "")[1:] for e in root.iter(f"{{{SVG}}}use")}
    ids = {old: f"{name}-{i}" for i, old in enumerate(sorted(used))}
    _clean(root, ids, texts)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    ElementTree.register_namespace("", SVG)
    return ElementTree.tostring(root, encoding="unicode")


def themed(svg: str, theme: dict[str, str]) -> str:
    """The same drawing with a theme's colours."""
    for name, sentinel in INK.items():
        svg = svg.replace(f'"{sentinel}"', f'"{theme[name]}"')
    return svg


def on_screen(svg: str) -> str:
    """For HTML: colours by CSS variables, no namespace."""
    return themed(svg, SCREEN).replace(f' xmlns="{SVG}"', "")


def on_paper(svg: str) -> str:
    """For PDF: fixed colours and an embedded font."""
    return themed(svg, PRINT).replace("<svg ", '<svg font-family="Libertinus Serif" ', 1)


def _clean(element: ElementTree.Element, ids: dict[str, str], texts: list[str]) -> None:
    element.tail = None
    element.text = _text(element, texts)
    element.attrib.pop("clip-path", None)
    _rename(element, ids)
    for declaration in element.attrib.pop("style", "").split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key == "font" and (font := _FONT.search(value)):
            element.set("font-size", font[2])
            if font[1]:
                element.set("font-weight", font[1])
        elif key in _KEPT:
            element.set(key, value.removesuffix("px"))
    if _UNTURNED.match(element.get("transform", "")):
        del element.attrib["transform"]
    for key, value in element.attrib.items():
        element.set(key, " ".join(_LONG.sub(_short, value).split()))
    kept: list[ElementTree.Element] = []
    for child in list(element):
        if child.tag.removeprefix(f"{{{SVG}}}") in _DROPPED:
            continue
        _clean(child, ids, texts)
        bare = child.tag in (f"{{{SVG}}}g", f"{{{SVG}}}defs") and not child.attrib
        kept.extend(child if bare and child.tag.endswith("}g") else [child])
    element[:] = [child for child in kept if len(child) or child.attrib]


def _text(element: ElementTree.Element, texts: list[str]) -> str | None:
    written = _WRITTEN.fullmatch((element.text or "").strip())
    if element.tag != f"{{{SVG}}}text" or written is None:
        return None
    return texts[int(written[1])]


def _rename(element: ElementTree.Element, ids: dict[str, str]) -> None:
    name = element.attrib.pop("id", None)
    if name in ids:
        element.set("id", ids[name])
    target = element.attrib.pop(f"{{{XLINK}}}href", None)
    if target is not None:
        element.set("href", f"#{ids[target[1:]]}")


def _short(match: re.Match[str]) -> str:
    text = f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
