"""The error tree: everything raised on purpose can be caught at its root, and says the way out."""

from __future__ import annotations

import inspect

import pytest

from ragbench import errors


def test_the_docstring_draws_the_whole_tree() -> None:
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, Exception):
            assert name in (errors.__doc__ or ""), name


def test_every_error_hangs_on_the_root() -> None:
    for value in vars(errors).values():
        if inspect.isclass(value) and issubclass(value, Exception) and not issubclass(value, Warning):
            assert issubclass(value, errors.RagbenchError)


def test_data_and_config_errors_are_value_errors() -> None:
    assert issubclass(errors.DataError, ValueError)
    assert issubclass(errors.ConfigError, ValueError)


def test_a_missing_extra_names_what_to_install() -> None:
    with pytest.raises(errors.MissingExtraError, match=r"pip install 'ragbench-lab\[local\]'") as caught:
        errors.require("no_such_module_anywhere", "local")
    assert isinstance(caught.value, ImportError)


def test_unknown_offers_the_nearest_name_only_when_there_is_one() -> None:
    assert "did you mean 'fixed'" in errors.unknown("chunker", "fixd", ["fixed", "sentence"])
    assert "did you mean" not in errors.unknown("chunker", "zzzz", ["fixed", "sentence"])
