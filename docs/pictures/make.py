"""Makes the pictures of the docs from the tutorial's two runs, with a headless Chromium.

    audit run --defense submix --attack extraction --output audits/first
    audit run --defense submix --defense dp_sgd --attack all --output audits/second
    python docs/pictures/make.py audits/first audits/second

Each picture shows some sections of report.html, by the ids of their headings. The reports are
written again first, so that the pictures show what the installed version draws.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

from audit import api

HERE = Path(__file__).parent
PICTURES = {  # file: which run (0 or 1), CSS of what is shown, and its height at most, in pixels
    "page-one.png": (0, "body > header, section:has(#found)", 1500),
    "claims.png": (1, "section:has(#found)", 1500),
    "promised.png": (
        1,
        "section:has(#promised), section:has(#tested), section:has(#untested)",
        900,
    ),
    "attacks.png": (1, "section:has(#attacks)", 1100),
    "figures.png": (1, "section:has(#figures)", 700),
    "epsilon.png": (1, "section:has(#epsilon)", 800),
}
WIDTH = 1000
LARGEST = 200_000  # bytes
MARGIN = 24  # empty pixels around what is shown; where so many rows are empty it may end


def main(*runs: Path) -> None:
    """Write every picture into the folder of this file."""
    reports = [report for run in runs for report in api.write_reports(run, ["html"])]
    pages = [report.read_text(encoding="utf-8") for report in reports]
    for name, (run, shown, height) in PICTURES.items():
        picture = photographed(only(pages[run], shown), height)
        small = picture.quantize(128, Image.Quantize.MAXCOVERAGE)  # others drop the few red pixels
        small.save(HERE / name, optimize=True)
        size = (HERE / name).stat().st_size
        print(f"{name}: {small.width} x {small.height}, {size:,} bytes")
        if size > LARGEST:
            sys.exit(f"make.py: {name} is larger than {LARGEST:,} bytes; show less of the page")


def only(page: str, shown: str) -> str:
    """Hide everything on the page but the chosen header and sections."""
    style = (
        "<style>body > header, body > nav, main section { display: none }"
        f" :is({shown}) {{ display: revert !important }}</style>"
    )
    page = re.sub(r"<meta http-equiv=.Content-Security-Policy.[^>]*>", "", page)  # of this copy
    assert "</head>" in page
    return page.replace("</head>", f"{style}</head>", 1)


def photographed(page: str, height: int) -> Image.Image:
    """Cut a screenshot's empty margins, so that it ends between two lines."""
    found = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    browser = next(filter(None, found), None)
    if browser is None:
        sys.exit("make.py: no Chromium found; install chromium")
    with tempfile.TemporaryDirectory() as folder:
        html, png = Path(folder, "page.html"), Path(folder, "page.png")
        html.write_text(page, encoding="utf-8")
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        words += [f"--window-size={WIDTH},{height + 300}", f"--screenshot={png}", html.as_uri()]
        subprocess.run([browser, *words], check=True, capture_output=True, timeout=120)
        shot = Image.open(png).convert("RGB")
    ground = Image.new("RGB", shot.size, shot.getpixel((0, 0)))
    box = ImageChops.difference(shot, ground).getbbox()
    if box is None:
        sys.exit("make.py: the picture is empty; the report's sections have other ids now")
    left, top, right, bottom = box
    if bottom - top > height:
        bottom = last_gap(ImageChops.difference(shot, ground), top, top + height)
    return shot.crop(
        (
            max(0, left - MARGIN),
            max(0, top - MARGIN),
            min(shot.width, right + MARGIN),
            min(shot.height, bottom + MARGIN),
        )
    )


def last_gap(drawn: Image.Image, top: int, end: int) -> int:
    """Where the last MARGIN empty rows above `end` begin. drawn: black where nothing is."""
    rows = [drawn.crop((0, y, drawn.width, y + 1)).getbbox() is None for y in range(end)]
    gaps = [y for y in range(top + MARGIN, end - MARGIN) if all(rows[y : y + MARGIN])]
    if not gaps:
        sys.exit(f"make.py: nothing ends within {end - top} pixels; show more of the page")
    return max(gaps)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python docs/pictures/make.py FIRST SECOND")
    main(*map(Path, sys.argv[1:]))
