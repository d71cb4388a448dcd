import dataclasses

import pytest

from fewbit import config


@pytest.mark.parametrize(
    "text, count",
    [
        ("0", 0),
        ("1024", 1024),
        ("2GiB", 2 << 30),
        ("1.5 kib", 1536),
        ("512MB", 512_000_000),
        (" 3 TB ", 3 * 10**12),
    ],
)
def test_sizes(text, count):
    assert config.parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "GiB", "-1", "2 GiBs", "nan", "inf", "1e400", "9e99TiB", "2G B"])
def test_a_text_that_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="no size; expected"):
        config.parse_bytes(text)


@pytest.mark.parametrize(
    "count, text", [(0, "0 B"), (999, "999 B"), (1024, "1 KiB"), (98_362_432, "93.8 MiB"), (5 << 40, "5 TiB")]
)
def test_bytes_read_well(count, text):
    assert config.format_bytes(count) == text


@pytest.mark.parametrize("kind", [config.ModelConfig, config.EngineConfig, config.ServerConfig])
def test_every_field_is_explained(kind):
    assert dataclasses.is_dataclass(kind)
    for field in dataclasses.fields(kind):
        assert f"\n    {field.name}\n" in kind.__doc__
