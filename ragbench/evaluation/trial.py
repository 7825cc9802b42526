"""A trial of the user's measures and criteria on an example, before a system is asked: which of
their errors stop the evaluation before it starts.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from traceback import walk_tb
from typing import Any

from ragbench.errors import ConfigError, DataError
from ragbench.hints import attributes
from ragbench.judges.criterion import Criterion
from ragbench.judges.judgements import computed_value
from ragbench.metrics.own_measures import own_value
from ragbench.registry import Measure
from ragbench.types import Answer, Case, Dataset

_LENGTH = 300


def try_functions(
    measures: Sequence[Measure], criteria: Sequence[Criterion], dataset: Dataset
) -> None:
    """Refuse functions that would fail on every answer, while nothing has been paid for.

    The example is the first question with its reference answer, and its documents in the order of
    their ids. A function of an answer may fail on the example and not on a system's answers. So only
    failures that are certain to recur are refused: a return value of a wrong kind, a name that does not
    exist, and a misspelled attribute of the case or the answer.

    Raises:
        ConfigError: a function is certain to fail.
    """
    if not dataset.cases:
        return
    case = dataset.cases[0]
    text = case.reference_answer or case.text
    answer = Answer(case.query_id, text, contexts=("example",))
    # the arguments of a function of answers: the case, the answer, the texts of its contexts
    example = (case, answer, [_context(case, dataset)])
    for measure in measures:
        if measure.level == "answer":
            _try(own_value, measure, case.query_id, example, _would_recur)
    for criterion in criteria:
        if criterion.function is not None:
            _try(computed_value, criterion, case.query_id, example, _would_recur)
    # a function of a ranking gets the ranked ids and the grades: it needs a question with judgements
    judged = [query_id for query_id, grades in dataset.qrels.items() if grades]
    if not judged:
        return
    grades = dataset.qrels[judged[0]]
    ranking = sorted({*grades, *islice(dataset.corpus, 3)})
    for measure in measures:
        if measure.level == "document":
            # the example is a ranking as any other, so every failure would recur
            _try(own_value, measure, judged[0], (ranking, grades), lambda failure: True)


def _try(
    compute: Callable[..., Any],
    own: object,
    query_id: str,
    example: Sequence[Any],
    is_certain: Callable[[BaseException | None], bool],
) -> None:
    """Compute a measure or criterion (`own`) on the example.

    Raises:
        ConfigError: it fails, and `is_certain` returns True: it would fail on every answer. Nothing is
            done about a failure that other answers may not have. `is_certain` gets the exception of the
            user's function, or None if the function returned a value of a wrong kind.
    """
    try:
        compute(own, query_id, *example)
    except DataError as exc:
        if is_certain(exc.__cause__):
            raise ConfigError(f"{exc} (tried on an example; nothing was asked)") from exc


def _would_recur(failure: BaseException | None) -> bool:
    """Return True if a function would fail alike on every answer: `failure` is None if it returned
    something of a wrong kind.
    """
    if isinstance(failure, AttributeError):
        # this module raises it for an attribute that a case or an answer lacks
        return _module_of(failure) == attributes.__name__
    return failure is None or isinstance(failure, NameError)


def _module_of(failure: BaseException) -> str:
    """Return the name of the module that raised an exception."""
    # from the outermost call to the one that raised
    frames = [frame for frame, _ in walk_tb(failure.__traceback__)]
    return str(frames[-1].f_globals.get("__name__"))


def _context(case: Case, dataset: Dataset) -> str:
    """Return a text for the context of the example: evidence of the question, else a document."""
    for span in case.evidence:
        document = dataset.corpus.get(span.doc_id)
        if document is not None:
            return document.full_text[span.start : span.end]
    for document in dataset.corpus.values():
        return document.full_text[:_LENGTH]
    return case.text
