r"""Chinese characters in Unicode, as ranges for a character class: ``rf"[{HAN}]+"``."""

from __future__ import annotations

import re

# The block of the characters in common use. It tells the language of a text: rarer ones do not come alone.
HAN = r"\u4e00-\u9fff"
# With extension A, which has rare characters of names.
HAN_AND_RARE = r"\u3400-\u9fff"
# With the compatibility forms and the planes of the later extensions: enough to count and cut any Chinese text.
ALL_HAN = HAN_AND_RARE + r"\uf900-\ufaff\U00020000-\U0003ffff"
HAN_CHARACTER = re.compile(f"[{HAN}]")
