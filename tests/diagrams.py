"""The diagrams of docs/: `python -m tests.diagrams` draws those whose source is another one than when they were drawn.

A source is a file of docs/diagrams; its picture in docs/images/diagrams names the source's SHA-256. Pictures, so that every reader of the
pages shows them and the site loads nothing. Drawn by Mermaid, of the npm registry, in a Chromium.
"""

import hashlib
import io
import re
import tarfile
import urllib.request
from pathlib import Path

from tests.dags.browsing import chromium
from tests.generated_docs import DIAGRAMS, DOCS

PICTURES = DOCS / "images" / "diagrams"
MERMAID_URL = "https://registry.npmjs.org/mermaid/-/mermaid-11.12.1.tgz"
MERMAID_SHA512 = "525219ad16ab881d754d8d51b538145a9eb9b6986d06fe024aaeefc92d996764e0a0c8ecda7968abec05ab18b07319611d4becec33c680c8ecd9a790c73e61f6"
SETTINGS = {
    "startOnLoad": False,
    "theme": "neutral",
    "fontFamily": "sans-serif",
    "htmlLabels": False,  # text of SVG: pictures show no HTML
    "flowchart": {"htmlLabels": False, "wrappingWidth": 400},
    "deterministicIds": True,
}
DRAW = """async ([name, source, settings]) => {
  mermaid.initialize(settings);
  return (await mermaid.render(name, source)).svg;
}"""


def not_drawn() -> list[Path]:
    """Sources whose pictures are missing, or of another source."""
    return [source for source in sorted(DIAGRAMS.glob("*.mmd")) if _mark(source) not in _text(picture_of(source))]


def picture_of(source: Path) -> Path:
    """Where the picture of a source is."""
    return PICTURES / f"{source.stem}.svg"


def _mark(source: Path) -> str:
    return f"<!-- drawn of {hashlib.sha256(source.read_bytes()).hexdigest()} -->"


def _text(picture: Path) -> str:
    return picture.read_text(encoding="utf-8") if picture.exists() else ""


def _mermaid() -> str:
    with urllib.request.urlopen(MERMAID_URL, timeout=60) as answer:
        packed = answer.read()
    if (found := hashlib.sha512(packed).hexdigest()) != MERMAID_SHA512:
        raise SystemExit(f"{MERMAID_URL} not used: SHA-512 {MERMAID_SHA512} expected, found {found}")
    with tarfile.open(fileobj=io.BytesIO(packed)) as package:
        script = package.extractfile("package/dist/mermaid.min.js")
        assert script is not None
        return script.read().decode()


def _as_picture(svg: str) -> str:
    """With a size of its own, which Mermaid leaves to the page, white behind it in the dark theme, too, and tenths of pixels: half the bytes."""
    width, height = re.findall(r'viewBox="0 0 (\S+) (\S+)"', svg)[0]
    svg = svg.replace('width="100%"', f'width="{width}" height="{height}"', 1)
    svg = svg.replace('style="', 'style="background-color: white; ', 1)
    return re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", svg)


def main() -> None:
    sources = not_drawn()
    if not sources:
        return
    script = _mermaid()
    with chromium() as browser:
        page = browser.new_page()
        page.add_script_tag(content=script)
        for source in sources:
            svg = page.evaluate(DRAW, [source.stem, source.read_text(encoding="utf-8"), SETTINGS])
            picture_of(source).write_text(f"{_as_picture(svg)}\n{_mark(source)}\n", encoding="utf-8")
            print(f"{picture_of(source)} drawn")


if __name__ == "__main__":
    main()
