"""HTML and SVG from cells: what is left of them can be shown and can do nothing."""

from __future__ import annotations

import io

import pytest
from lxml import etree

from fathom.core.errors import InvalidField
from fathom.services.sandbox.front.markup import MAX_ELEMENTS, SVG_NAMESPACE, clean_markup
from fathom.services.sandbox.ipc.frames import HTML, SVG

HEAD = f'<svg xmlns="{SVG_NAMESPACE}" xmlns:xlink="http://www.w3.org/1999/xlink"'

HOSTILE_HTML = [
    "<script>attack</script>", "<img src=x onerror=attack>", "<svg onload=attack><script>attack</script></svg>",
    "<iframe srcdoc='attack'></iframe>", "<a href='javascript:attack'>a</a>", "<form action='attack'><input></form>",
    "<style>@import 'attack'</style>", "<b style='background:url(attack)'>a</b>", "<base href='attack'>",
    "<meta http-equiv=refresh content='0;attack'>", "<object data=attack></object>", "<link rel=stylesheet href=attack>",
    "<math><mtext></mtext><mglyph><style><!--</style><img src onerror=attack>", "<template>attack</template>",
    "<b\x00 onclick=attack>a</b>", "<noscript><p title='</noscript><img src=x onerror=attack>'>", "<video poster=attack>",
]  # fmt: skip

HOSTILE_SVG = [
    f'{HEAD} onload="attack"/>', f"{HEAD}><script>attack</script></svg>",
    f'{HEAD}><foreignObject><b xmlns="http://www.w3.org/1999/xhtml">attack</b></foreignObject></svg>',
    f'{HEAD}><image href="http://attack"/></svg>', f'{HEAD}><use xlink:href="http://attack#a"/></svg>',
    f'{HEAD}><rect style="fill:url(http://attack)"/></svg>', f'{HEAD}><rect style="fill:u\\72l(attack)"/></svg>',
    f'{HEAD}><style>@import "attack"</style></svg>', f'{HEAD}><a href="javascript:attack"><text>a</text></a></svg>',
    f'{HEAD}><animate attributeName="href" to="attack"/></svg>', f'{HEAD}><set to="attack"/></svg>',
    f'<!DOCTYPE svg [<!ENTITY e "attack">]>{HEAD}><text>&e;</text></svg>',
    f'<?xml-stylesheet href="attack"?>{HEAD}/>', f"{HEAD}><image href=\"data:image/svg+xml,attack\"/></svg>",
]  # fmt: skip


@pytest.mark.parametrize("markup", HOSTILE_HTML)
def test_nothing_of_hostile_html_is_left(markup: str) -> None:
    cleaned = clean_markup(HTML, f"<p>kept</p>{markup}".encode()).decode()
    assert "attack" not in cleaned
    assert "<p>kept</p>" in cleaned


@pytest.mark.parametrize("drawing", HOSTILE_SVG)
def test_nothing_of_a_hostile_drawing_is_left(drawing: str) -> None:
    assert b"attack" not in clean_markup(SVG, drawing.encode())


def test_a_table_and_its_text_are_kept() -> None:
    table = (
        '<table class="x"><caption>价</caption><tr><th scope="col">a</th></tr><tr><td colspan="2">1</td></tr></table>'
    )
    cleaned = clean_markup(HTML, f"{table}<p>5 &lt; 6</p>".encode()).decode()
    assert '<caption>价</caption><tr><th scope="col">a</th></tr><tr><td colspan="2">1</td></tr>' in cleaned
    assert "<p>5 &lt; 6</p>" in cleaned


def test_a_figure_of_matplotlib_stays_the_drawing_that_it_was() -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    figure.add_subplot().plot([1, 2, 3])
    drawn = io.BytesIO()
    figure.savefig(drawn, format="svg")
    before = etree.fromstring(drawn.getvalue())
    after = etree.fromstring(clean_markup(SVG, drawn.getvalue()))
    for tag in ("path", "use", "g"):
        name = f"{{{SVG_NAMESPACE}}}{tag}"
        assert len(list(after.iter(name))) == len(list(before.iter(name))) > 0


def test_a_chain_of_uses_cannot_multiply_what_is_drawn() -> None:
    links = "".join(f'<g id="g{n}"><use href="#g{n - 1}"/><use href="#g{n - 1}"/></g>' for n in range(1, 30))
    drawing = f'{HEAD}><path id="g0" d="M0 0"/>{links}<use href="#g29"/></svg>'
    # The first link draws a shape twice; no other draws anything.
    assert clean_markup(SVG, drawing.encode()).count(b"<use") == 2


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (SVG, b"no drawing"), (SVG, b"<html/>"), (SVG, b""), ("image/png", b"x"),
        (SVG, f"{HEAD}>{'<g/>' * (MAX_ELEMENTS + 1)}</svg>".encode()), (HTML, b"<p>" * (MAX_ELEMENTS + 1)),
    ],
)  # fmt: skip
def test_what_is_neither_or_too_much_is_refused(kind: str, data: bytes) -> None:
    with pytest.raises(InvalidField, match="display"):
        clean_markup(kind, data)
