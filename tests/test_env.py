import pytest

from fewbit import env


@pytest.mark.parametrize(
    "variable, text, value",
    [
        (env.FEATURES, "-amx, avx2", frozenset({"-amx", "avx2"})),
        (env.FEATURES, "", frozenset()),
        (env.THREADS, "3", 3),
        (env.THREADS, " ", None),
        (env.CPUS, "4,0-2", (4, 0, 1, 2)),
        (env.API_KEY, "secret", "secret"),
    ],
)
def test_values(variable, text, value):
    assert variable.get({variable.name: text}) == value


@pytest.mark.parametrize("variable", env.VARIABLES, ids=lambda v: v.name)
def test_unset_gives_the_default_and_each_has_a_meaning(variable):
    assert variable.get({}) == variable.default
    assert variable.name.startswith("FEWBIT_") and len(variable.doc) > 20


@pytest.mark.parametrize(
    "variable, text, expected",
    [
        (env.FEATURES, "-avx2,-", "hide with a minus sign"),
        (env.THREADS, "0", "at least 1"),
        (env.THREADS, "two", "at least 1"),
        (env.THREADS, "-1", "at least 1"),
        (env.CPUS, "3-1", "ranges, like 0-3,8"),
        (env.CPUS, "0,,1", "ranges, like 0-3,8"),
        (env.CPUS, "0-2,1", "each CPU number once"),
        (env.LIBRARY, "/nowhere/libfewbit.so", "existing file"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(variable, text, expected):
    with pytest.raises(env.EnvError) as caught:
        variable.get({variable.name: text})
    assert variable.name in str(caught.value)
    assert repr(text) in str(caught.value)
    assert expected in str(caught.value)


def test_no_module_reads_another_variable_of_ours(root):
    """The table is whole: a FEWBIT_ name anywhere in the sources is one of it."""
    import re

    names = {v.name for v in env.VARIABLES}
    for path in (root / "src").rglob("*.py"):
        found = set(re.findall(r"FEWBIT_[A-Z_]+\b", path.read_text()))
        assert found <= names | {"FEWBIT_ISAS"}, path
