"""QR codes, as pictures of a few kilobytes that need no script."""

import io

import segno


def svg(text: str) -> str:
    """Return an SVG document, black on white also in dark mode."""
    document = io.BytesIO()
    picture = segno.make(text, error="m", micro=False)
    picture.save(document, kind="svg", xmldecl=False, omitsize=True, light="#fff", nl=False)
    return document.getvalue().decode()
