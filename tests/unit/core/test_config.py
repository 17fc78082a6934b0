"""Settings: layers, unknown keys, wrong values; the message names key and origin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fathom.core.config import ConfigError, Settings, load


class Sample(Settings):
    port: int = 1
    name: str = "a"
    ratio: float = 0.5
    urls: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
    flag: bool = False


def write(folder: Path, text: str) -> Path:
    path = folder / "fathom.yaml"
    path.write_text(text)
    return path


def test_later_layers_win(tmp_path: Path) -> None:
    file = write(tmp_path, "sample: {port: 2, name: b, ratio: 0.1}\nother: {x: 1}")
    # File, environment and override each set the ratio; only the port is the file's alone.
    environ = {"FATHOM_SAMPLE_NAME": "c", "FATHOM_SAMPLE_RATIO": "0.2", "FATHOM_OTHER_X": "1"}
    assert load(Sample, "sample", file=file, environ=environ, overrides={"ratio": 0.3}) == Sample(
        port=2, name="c", ratio=0.3
    )


def test_environment_values_are_read_as_their_type() -> None:
    # "7" stays a text, for the field is one.
    environ = {"FATHOM_SAMPLE_URLS": '{"a": "grpc://b"}', "FATHOM_SAMPLE_FLAG": "true", "FATHOM_SAMPLE_NAME": "7"}
    assert load(Sample, "sample", environ=environ) == Sample(urls={"a": "grpc://b"}, flag=True, name="7")


@pytest.mark.parametrize(
    ("file", "environ", "words"),
    [
        # A misspelt key with its nearest, values of another type, sections that are none, YAML that is broken.
        ("sample: {prot: 2}", {}, ("sample.prot", "fathom.yaml", "'port'")),
        ("sample: {port: many}", {}, ("sample.port", "fathom.yaml")),
        ("sample: [1]", {}, ("sample", "mapping")),
        ("- 1", {}, ("mapping of sections",)),
        ("sample: {port: [", {}, ("cannot read",)),
        ("", {"FATHOM_SAMPLE_PROT": "2"}, ("sample.prot", "environment", "'port'")),
        ("", {"FATHOM_SAMPLE_PORT": "many"}, ("FATHOM_SAMPLE_PORT", "many")),
        ("", {"FATHOM_SAMPLE_URLS": "{"}, ("FATHOM_SAMPLE_URLS",)),
    ],
)
def test_bad_settings_name_key_and_origin(
    tmp_path: Path, file: str, environ: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as bad:
        load(Sample, "sample", file=write(tmp_path, file), environ=environ)
    for word in words:
        assert word in bad.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load(Sample, "sample", file=tmp_path / "nowhere.yaml", environ={})
