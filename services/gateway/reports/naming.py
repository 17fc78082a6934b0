"""Names of files to download."""

from __future__ import annotations

import re
from pathlib import PurePath
from urllib.parse import quote

# What file systems refuse in names, and control characters.
UNFIT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\ud800-\udfff]+')
# File systems take 255 bytes, and a Chinese character has three; the rest is for the suffix and "(1)".
MAX_NAME_BYTES = 240


def name_file(wished: str, own: str) -> dict[str, str]:
    """Return the header that names a download: as wished, as far as file systems take that, or by its ``own`` name."""
    # A dot in front would hide the file on Unix, and blanks or dots before the suffix only confuse.
    spaced = " ".join(UNFIT_IN_NAMES.sub(" ", wished).split())
    plain = spaced.encode()[:MAX_NAME_BYTES].decode(errors="ignore").strip(" .")
    shown = f"{plain}{PurePath(own).suffix}" if plain else own
    # The first form is for programs that do not read the second (RFC 6266); ``own`` is made of a checked id.
    return {"Content-Disposition": f"attachment; filename=\"{own}\"; filename*=UTF-8''{quote(shown, safe='')}"}
