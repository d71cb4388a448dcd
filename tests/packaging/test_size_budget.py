from pathlib import Path

from tools import size_budget
from tools.size_budget import ROOT, violations


def test_small_files_pass():
    assert violations({ROOT / f"{i}.py": 100 for i in range(20)}) == []


def test_each_rule_is_named():
    assert violations({ROOT / "a.py": 501}) == [
        "a.py has 501 lines, the limit is 500; split it by idea",
        "the median file has 501 lines, it must stay under 150",
        "the 90th percentile file has 501 lines, it must stay under 300",
    ]
    assert violations(
        {ROOT / f"{i}.py": 149 for i in range(8)} | {ROOT / "x.py": 300, ROOT / "y.py": 300}
    ) == ["the 90th percentile file has 300 lines, it must stay under 300"]
    assert violations({}) == ["no source file found"]


def test_only_a_listed_folder_of_tuned_kernels_may_be_longer(monkeypatch):
    monkeypatch.setattr(size_budget, "TUNED_FOLDERS", ("src/tuned",))
    small = {ROOT / f"{i}.py": 10 for i in range(20)}
    assert violations(small | {ROOT / "src/tuned/amx.cpp": 800}) == []
    assert len(violations(small | {ROOT / "src/tuned/amx.cpp": 801})) == 1
    assert len(violations(small | {ROOT / "src/tuned_not/amx.cpp": 600})) == 1


def test_lines_are_counted_as_an_editor_counts(tmp_path):
    for text, lines in (("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2)):
        (tmp_path / "f.py").write_text(text)
        assert size_budget.line_count(Path(tmp_path / "f.py")) == lines
