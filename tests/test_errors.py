"""The error tree: everything raised on purpose can be caught at its root, and names the way out."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import pytest

import ragbench as rb
from ragbench import errors
from ragbench.hints.calls import explaining_calls


def test_the_docstring_draws_the_whole_tree() -> None:
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, Exception):
            assert name in (errors.__doc__ or ""), name


def test_every_error_hangs_on_the_root() -> None:
    for value in vars(errors).values():
        if (
            inspect.isclass(value)
            and issubclass(value, Exception)
            and not issubclass(value, Warning)
        ):
            assert issubclass(value, errors.RagbenchError)


def test_data_and_config_errors_are_value_errors() -> None:
    assert issubclass(errors.DataError, ValueError)
    assert issubclass(errors.ConfigError, ValueError)


def test_a_missing_extra_names_what_to_install() -> None:
    with pytest.raises(
        errors.MissingExtraError, match=r"pip install 'ragbench-lab\[local\]'"
    ) as caught:
        errors.require("no_such_module_anywhere", "local")
    assert isinstance(caught.value, ImportError)


def test_unknown_offers_the_nearest_name_only_when_there_is_one() -> None:
    assert "did you mean 'fixed'" in errors.unknown("chunker", "fixd", ["fixed", "sentence"])
    assert "did you mean" not in errors.unknown("chunker", "zzzz", ["fixed", "sentence"])


def test_a_long_list_of_known_names_is_cut_and_the_nearest_is_still_found() -> None:
    names = [f"document {i}" for i in range(99)]
    message = errors.unknown("document", "document 98x", names)
    assert "did you mean 'document 98'" in message
    assert message.endswith("document 29, ...")
    named = errors.unknown("retriever", "bm-25", ["bm25"], "bm25, dense:<embedder>")
    assert named.endswith("Known: bm25, dense:<embedder>")


def test_an_error_carries_the_kind_of_failure_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(errors.ModelError("no reply", errors.FailureKind.TIMEOUT)))
    assert (str(error), error.failure) == ("no reply", errors.FailureKind.TIMEOUT)
    assert errors.DataError("x").failure is None


def test_a_notebook_shows_one_line_of_an_expected_error() -> None:
    error = errors.ConfigError("k is 0; expected 1 or more")
    assert error._render_traceback_() == ["ConfigError: k is 0; expected 1 or more"]


def test_a_notebook_shows_our_warnings_without_lines_of_source() -> None:
    code = (
        "import sys, types, warnings\n"
        "sys.modules['ipykernel'] = types.ModuleType('ipykernel')\n"
        "from ragbench.errors import DataWarning\n"
        "warnings.warn('3 questions are empty', DataWarning)\n"
        "warnings.warn('of another library', UserWarning)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert lines[0] == "DataWarning: 3 questions are empty"
    assert lines[1].startswith("<string>:5: UserWarning: of another library")


def test_errors_and_warnings_drive_no_terminal() -> None:
    hostile = "\x1b[31mred\x1b[0m \x1b]0;title\x07\x9b2Jname\x1b(B"
    assert str(errors.DataError(f"a {hostile}:\n  line 2")) == "a red name:\n  line 2"
    assert errors.printable(hostile) == "red name"
    assert "\x1b" not in errors._format_warning(hostile, errors.DataWarning, "f", 1)


def test_hidden_signs_are_shown_as_signs_and_texts_of_all_languages_stay() -> None:
    for hidden in "\x00\x07\x1b\x7f\x9b\u061c\u200b\u200f\u202e\u2066\u2028\ufeff\U000e0041\ud800":
        shown = errors.visible(f"a{hidden}b")
        assert isinstance(shown, str)
        assert len(shown) == 3
        assert shown.isprintable()
    for text in (
        "two\nlines\tand\r\na tab",
        "a family \U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u65e5\u672c\u3000\u8a9e, 10\u00a0%, thin\u2009space",
    ):
        assert errors.visible(text) == text
    assert errors.visible(1.5) == 1.5


def test_a_warning_names_the_line_of_the_user() -> None:
    judged, run = {"q1": {"d1": 1}}, {"q2": {"d1": 1.0}}
    with pytest.warns(errors.DataWarning, match="no query of the run is judged") as caught:
        rb.score_run(judged, run)
    assert caught[0].filename == __file__


def test_a_cause_is_shown_once_and_every_warning_is_raised() -> None:
    code = (
        "import warnings\n"
        "from ragbench.errors import DataWarning, one_line_warnings\n"
        "one_line_warnings()\n"
        "for count in (3, 4):\n"
        "    warnings.warn(DataWarning(f'{count} texts are cut', cause='cut'))\n"
        "    warnings.warn(DataWarning(f'{count} texts are empty'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [
        "DataWarning: 3 texts are cut",
        "DataWarning: 3 texts are empty",
        "DataWarning: 4 texts are empty",
    ]
    for count in (3, 4):
        with pytest.warns(errors.DataWarning, match=f"{count} texts are cut"):
            errors.warn_user(errors.DataWarning(f"{count} texts are cut", cause="cut"))


def test_a_warning_with_a_cause_passes_from_process_to_process() -> None:
    warning = pickle.loads(pickle.dumps(errors.DataWarning("3 texts are cut", cause="a cause")))
    assert str(warning) == "3 texts are cut"
    assert not warning.is_known()
    assert warning.is_known()


def test_an_error_inside_a_function_with_any_options_is_not_blamed_on_their_type() -> None:
    @explaining_calls()
    def widths(**types: type) -> int:
        raise TypeError("no width")

    with pytest.raises(TypeError, match="no width"):
        widths(k=int)
