import sys

import pytest

from fewbit import demo


@pytest.mark.demo
def test_the_demo_model_is_found_without_importing_its_package(demo_model):
    assert demo_model.name == demo.FILE
    assert demo.PACKAGE not in sys.modules


@pytest.mark.demo
def test_the_demo_model_is_the_file_it_should_be(demo_model):
    demo.verify(demo_model)


def test_a_missing_demo_model_says_what_to_run(monkeypatch):
    monkeypatch.setattr(demo, "PACKAGE", "no_such_package_anywhere")
    with pytest.raises(demo.DemoModelError, match="run `make setup`"):
        demo.demo_path()


def test_a_file_of_another_size_or_content_is_refused(tmp_path, monkeypatch):
    package = tmp_path / "carrier_of_the_demo"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / demo.FILE).write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(demo, "PACKAGE", package.name)
    with pytest.raises(demo.DemoModelError, match="has 4 bytes, expected 98362432"):
        demo.demo_path()
    with pytest.raises(demo.DemoModelError, match="has SHA-256"):
        demo.verify(package / demo.FILE)
