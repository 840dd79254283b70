import pytest

from nrs._util.optional import import_optional


def test_a_missing_package_is_named_with_what_needs_it_and_what_installs_it():
    expected = r"a report needs no_such, which is not installed; run: pip install '.*\[plots\]'"
    with pytest.raises(ModuleNotFoundError, match=expected):
        import_optional("no_such.part", "a report", "plots")


def test_a_package_without_an_extra_is_installed_by_its_name():
    with pytest.raises(ModuleNotFoundError, match=r"run: pip install no-such$"):
        import_optional("no_such", "a report", package="no-such")


def test_the_module_is_returned():
    assert import_optional("os.path", "a report", "plots").join("a") == "a"
