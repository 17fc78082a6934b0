"""Cleaning of the HTML and SVG that cells display: what is left can be shown, and can do nothing.

Both are parsed and written anew from lists of what is allowed. It runs in a decoder's child process, never in the
process that holds keys and ports. The gateway, which shows the result, forbids scripts in its answers as well.
"""

from __future__ import annotations

from lxml import etree, html
from lxml_html_clean import Cleaner

from fathom.core.errors import InvalidField
from fathom.services.sandbox.ipc.frames import HTML, SVG

# A chart of ten thousand points has as many elements; more than these keep a browser busy for seconds.
MAX_ELEMENTS = 50_000
SVG_NAMESPACE = "http://www.w3.org/2000/svg"
HREFS = ("href", "{http://www.w3.org/1999/xlink}href")
SHAPES = frozenset({"path", "rect", "circle", "ellipse", "line", "polyline", "polygon"})
SVG_TAGS = SHAPES | {
    "svg", "g", "defs", "symbol", "use", "text", "tspan", "title", "desc", "clipPath", "marker", "linearGradient",
    "radialGradient", "stop", "image",
}  # fmt: skip
SVG_ATTRIBUTES = frozenset(
    {
        "id", "class", "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "ry", "fx", "fy", "dx", "dy",
        "width", "height", "viewBox", "version", "preserveAspectRatio", "points", "transform", "offset", "rotate",
        "textLength", "lengthAdjust", "gradientUnits", "gradientTransform", "spreadMethod", "clipPathUnits",
        "markerWidth", "markerHeight", "markerUnits", "refX", "refY", "orient", "style", "fill", "fill-opacity",
        "fill-rule", "stroke", "stroke-width", "stroke-opacity", "stroke-linecap", "stroke-linejoin",
        "stroke-dasharray", "stroke-dashoffset", "stroke-miterlimit", "opacity", "clip-path", "clip-rule",
        "font-family", "font-size", "font-style", "font-weight", "text-anchor", "dominant-baseline",
        "alignment-baseline", "stop-color", "stop-opacity", "marker-start", "marker-mid", "marker-end", "color",
        "display", "visibility", "shape-rendering", "text-rendering",
    }
)  # fmt: skip
HTML_TAGS = (
    "a", "abbr", "b", "blockquote", "br", "caption", "code", "col", "colgroup", "dd", "div", "dl", "dt", "em", "h1",
    "h2", "h3", "h4", "h5", "h6", "hr", "i", "li", "ol", "p", "pre", "s", "small", "span", "strong", "sub", "sup",
    "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul",
)  # fmt: skip
HTML_ATTRIBUTES = frozenset({"colspan", "rowspan", "scope"})
# A frame has no styles of the page around it: readable in the light and in the dark, and lines between rows.
PAGE = (
    '<!doctype html><html><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
    "<style>body{font:13px sans-serif;margin:8px}table{border-collapse:collapse}"
    "td,th{padding:2px 8px;border-bottom:1px solid #8886;text-align:right}</style></head><body>%s</body></html>"
)


def clean_markup(media_type: str, data: bytes) -> bytes:
    """Return HTML as a document, or SVG, without anything that acts, loads or refers to somewhere else.

    Raise ``InvalidField("display")`` for what is neither, and for more than ``MAX_ELEMENTS`` elements.
    """
    try:
        if media_type == HTML:
            return clean_html(data)
        if media_type == SVG:
            return clean_svg(data)
    except (etree.LxmlError, ValueError) as error:
        raise InvalidField("display", f"is no {media_type}: {error}") from error
    raise InvalidField("display", f"{media_type} is no markup")


def clean_html(data: bytes) -> bytes:
    """Return a document of the allowed elements, without links, styles and classes."""
    # A text may hold what XML has no character for.
    text = "".join(letter for letter in data.decode("utf-8", "replace") if letter >= " " or letter in "\t\n\r")
    root = html.fragment_fromstring(text, create_parent="div")
    check_size(root)
    cleaner = Cleaner(
        scripts=True, javascript=True, style=True, inline_style=True, links=True, meta=True, page_structure=True,
        embedded=True, frames=True, forms=True, comments=True, processing_instructions=True, annoying_tags=True,
        remove_unknown_tags=False, allow_tags=HTML_TAGS, safe_attrs_only=True, safe_attrs=HTML_ATTRIBUTES,
        kill_tags=("script", "style", "template", "svg", "math"),
    )  # fmt: skip
    cleaner(root)
    content: str = html.tostring(root, encoding="unicode")
    return (PAGE % content).encode("utf-8", "replace")


def clean_svg(data: bytes) -> bytes:
    """Return the drawing of allowed elements and attributes."""
    # Entities of its own are left alone by the parser, and dropped below like all else that is no element.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    root = etree.fromstring(data, parser)
    if root.tag != f"{{{SVG_NAMESPACE}}}svg":
        raise ValueError("its root is not svg")
    check_size(root)
    for element in list(root.iter()):
        if not is_allowed_element(element):
            remove(element)
            continue
        for name, value in element.attrib.items():
            if not is_allowed_attribute(element, name, value):
                del element.attrib[name]
    drop_nested_uses(root)
    # Without the document type, which may declare entities.
    return bytes(etree.tostring(root, encoding="utf-8", xml_declaration=True))


def check_size(root: etree._Element) -> None:
    """Raise ``ValueError`` for a tree of too many elements."""
    count = sum(1 for _ in root.iter())
    if count > MAX_ELEMENTS:
        raise ValueError(f"{count:,} elements are over the limit of {MAX_ELEMENTS:,}")


def is_allowed_element(element: etree._Element) -> bool:
    """Return whether a node is an element of the list; entities and elements of other languages are not."""
    if not isinstance(element.tag, str):
        return False
    name = etree.QName(element)
    return name.namespace == SVG_NAMESPACE and name.localname in SVG_TAGS


def is_allowed_attribute(element: etree._Element, name: str, value: str) -> bool:
    """Return whether an attribute draws something, and refers to nothing but parts of the same drawing."""
    if name in HREFS:
        is_image = etree.QName(element).localname == "image"
        return value.startswith("data:image/png;base64,") if is_image else value.startswith("#")
    # A style could load what it names; written with escapes it would not be recognised.
    refers = "url(" in value.replace("url(#", "").lower() or "\\" in value or "@" in value
    return name in SVG_ATTRIBUTES and not refers


def drop_nested_uses(root: etree._Element) -> None:
    """Remove each ``use`` of anything but a single shape: a chain of them doubles what is drawn at every link."""
    named = [(element.get("id"), etree.QName(element).localname in SHAPES) for element in root.iter()]
    # An id that occurs twice may mean either.
    shapes = {name for name, is_shape in named if is_shape} - {name for name, is_shape in named if not is_shape}
    for use in list(root.iter(f"{{{SVG_NAMESPACE}}}use")):
        target = next((use.get(name) for name in HREFS if use.get(name)), "")
        if (target or "").removeprefix("#") not in shapes:
            remove(use)


def remove(element: etree._Element) -> None:
    """Take an element out of its tree with all that it contains, but not the text behind it."""
    parent = element.getparent()
    if parent is None:
        return
    if element.tail:
        previous = element.getprevious()
        if previous is not None:
            previous.tail = (previous.tail or "") + element.tail
        else:
            parent.text = (parent.text or "") + element.tail
    parent.remove(element)
