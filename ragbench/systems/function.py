"""Any Python function as a system under test: which methods of frameworks are called and with what,
and the event loop on which asynchronous ones run.

The loop has a separate thread: asynchronous code is behind a plain call, also inside Jupyter's
running loop.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from ragbench.errors import ConfigError, DataError, FailureKind
from ragbench.hints.attributes import Suggesting, suggesting
from ragbench.systems.answer_parser import read_answer
from ragbench.testsets.fields import QUESTIONS
from ragbench.text import without_surrogates
from ragbench.types import Answer, Document

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

Message = Mapping[str, str]
"""A message of a conversation: its role and its content."""


class Asker(TypedDict, total=False):
    """Who asks a question, and the messages before it: the options of `answer`."""

    user_roles: Sequence[str]
    history: Sequence[Message]


_NO_ROLES_OR_HISTORY = Asker(user_roles=(), history=())
"""The options for a question alone."""

T = TypeVar("T")

_MAX_CLOSE_S = 10.0


def _instead_of(given: object) -> str:
    """Return what to write for an object that answers no questions: a model of embeddings, or any other."""
    if callable(getattr(given, "encode", None)):
        return (
            "an embedder is used by rb.evaluate(data, retriever=lambda chunks: "
            "rb.retrieval.Dense(chunks, embedder))"
        )
    return "write rb.evaluate(data, ask) with a function ask(question) that uses it"


@suggesting()
class FunctionSystem(metaclass=Suggesting):
    """A function from a question's text to its answer.

    It returns a text, a dict (see `read_answer`), an `Answer`, a list of contexts (a retriever's:
    texts, dicts, documents), a text with such a list, or what LangChain, LlamaIndex, Haystack and
    vector stores return, which is read by its shape (`read_answer`):
    `FunctionSystem(retriever.invoke)`. An object with a method `invoke`, `query`, `retrieve` or
    `run` may be given in place of that method: a chain or a compiled graph gets the question under
    the names of its inputs, a pipeline of Haystack in each component that takes one.

    An asynchronous function runs on an event loop in a separate thread, the same for all questions,
    so this also works if a loop is running already, as in Jupyter. A function with a parameter
    `user_roles` gets the roles of the case, a tuple of texts, and one with `history` the earlier
    messages of the conversation, a tuple of {"role", "content"}. If the function raises, or returns
    a value that is not an answer, the answer is a failed one with the reason in `error`; Ctrl-C
    ends. `name` is the function's unless given.

    >>> system = FunctionSystem(lambda question: {"answer": "In 1881 [1].", "contexts": ["It opened in 1881."]})
    >>> answer = system.answer("q1", "When did it open?")
    >>> answer.text, [passage.text for passage in answer.passages]
    ('In 1881 [1].', ['It opened in 1881.'])
    >>> FunctionSystem(len, name="broken").answer("q1", "When?").error
    'broken returned what cannot be read as an answer: 5 (int); expected a text, a dict with "answer" ...
    >>> FunctionSystem(lambda question: 1 / 0).answer("q1", "When?").error
    'ZeroDivisionError: division by zero'
    """

    def __init__(
        self,
        function: object,
        *,
        name: str = "",
        corpus: Mapping[str, Document] = MappingProxyType({}),
    ) -> None:
        """Take a function of the question, or an object that has one (`to_callable`).

        Args:
            function: of the question.
            name: of the system; "" means the function's.
            corpus: the documents of the dataset: if a generator yields several texts, and each is the
                text of one of these, they are contexts, not pieces of an answer.
        """
        if isinstance(function, type):
            raise ConfigError(
                f"FunctionSystem: {function.__name__} is a class; pass an object of it, such as "
                f"{function.__name__}(); the class of a retriever is made with the chunks, and has a "
                "method search(queries, k)"
            )
        question_function = to_callable(function)
        if question_function is None:
            raise ConfigError(
                f"FunctionSystem: {function!r} is neither a function of the question, nor an object "
                "with answer(query_id, query) or with search(queries, k), which finds chunks; "
                f"{_instead_of(function)}"
            )
        self._function = question_function
        self.name = name or getattr(function, "__name__", type(function).__name__)
        _check_arguments(question_function, self.name)
        self._corpus = corpus
        self._lock = threading.Lock()
        self._loop: EventLoop | None = None

    def __repr__(self) -> str:
        return f"FunctionSystem({self.name!r})"

    def answer(self, query_id: str, query: str, **options: Unpack[Asker]) -> Answer:
        """Return the function's answer; `latency_ms` has "total", and the times that the function
        itself reports.
        """
        start = perf_counter()
        answer = attempt(query_id, self.name, lambda: self._output(query, **options))
        total_ms = 1000 * (perf_counter() - start)
        return replace(answer, latency_ms={"total": total_ms, **answer.latency_ms})

    def _output(self, query: str, **options: Unpack[Asker]) -> Any:
        """Return the value of the function; of a generator that yields documents of the corpus, the list of
        these.
        """
        returned = self.returned(query, **options)
        if not isinstance(returned, Iterator) or not self._corpus:
            return returned
        parts = [*returned]
        are_texts = all(isinstance(part, str) for part in parts)
        if are_texts and len(parts) > 1 and self._document_texts.issuperset(map(str.strip, parts)):
            return parts
        return iter(parts)

    @cached_property
    def _document_texts(self) -> frozenset[str]:
        """The text of each document, with and without its title, without white space around it."""
        texts = set()
        for document in self._corpus.values():
            texts |= {document.text.strip(), document.full_text.strip()}
        return frozenset(texts - {""})

    def returned(self, query: str, **options: Unpack[Asker]) -> Any:
        """Return the value of the function as it is; its exceptions pass."""
        asker = accepted_options(self._function, **_NO_ROLES_OR_HISTORY | options)
        returned = self._function(query, **asker)
        is_asynchronous = inspect.isawaitable(returned) or isinstance(returned, AsyncIterator)
        if is_asynchronous:
            return self._event_loop().run(_awaited(returned))
        return returned

    def close(self) -> None:
        """End the event loop, if there is one."""
        if self._loop is not None:
            self._loop.close()

    def _event_loop(self) -> EventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = EventLoop(self.name)
            return self._loop


async def _awaited(returned: Any) -> Any:
    """Return the result of an awaitable, or a generator of an asynchronous generator's values."""
    if isinstance(returned, AsyncIterator):
        return iter([piece async for piece in returned])
    return await returned


_METHODS = ("invoke", "query", "retrieve", "run", "get_relevant_documents", "chat", "ask")
"""Methods of frameworks that answer a question, or search for it."""


def to_callable(value: Any) -> Callable[..., Any] | None:
    """Return the function that answers a question: the object itself if it can be called, else its
    first method among `invoke` (LangChain, LangGraph), `query`, `retrieve` (LlamaIndex), `run`
    (Haystack), `get_relevant_documents` (older LangChain), `chat` and `ask`.

    If the method takes a table of named inputs, the returned function puts the question into each
    input that takes one. Return None for a class, and for an object that has none of these methods.

    >>> class Engine:
    ...     def query(self, question: str) -> str:
    ...         return question.upper()
    >>> to_callable(Engine())("why?"), to_callable(3)
    ('WHY?', None)
    """
    if isinstance(value, type):
        return None
    if callable(value):
        return value  # type: ignore[no-any-return]
    methods = (getattr(value, name, None) for name in _METHODS)
    method = next(filter(callable, methods), None)
    if method is None:
        return None
    is_haystack_pipeline = hasattr(value, "inputs") and hasattr(value, "graph")
    if is_haystack_pipeline:
        return _run_of_haystack(value)
    input_names = _inputs_of(value)
    return _with_named_inputs(method, input_names) if input_names else method


def _run_of_haystack(pipeline: Any) -> Callable[[str], Any]:
    """Return a function that runs a pipeline of Haystack with a question.

    A pipeline is made of components, each with named inputs. The question goes into every input that has
    a usual name for one (`QUESTIONS`), and into every input that must be given.
    """
    inputs_of_component: dict[str, list[str]] = {}
    for component, fields in pipeline.inputs().items():
        inputs_of_component[component] = [
            name for name in fields if name in QUESTIONS or fields[name]["is_mandatory"]
        ]

    def run(question: str) -> Any:
        inputs = {}
        for component, names in inputs_of_component.items():
            inputs[component] = dict.fromkeys(names, question)  # the question in each input
        every_component = {*pipeline.graph}  # also those in the middle, such as a retriever
        return pipeline.run(inputs, include_outputs_from=every_component)

    return run


def _with_named_inputs(
    method: Callable[..., Any], input_names: Sequence[str]
) -> Callable[..., Any]:
    """Return a function of a question and its history, which calls `method` with one table: input name ->
    value.

    The input "chat_history" gets the earlier messages, "messages" also the question; every other input
    gets the text of the question.
    """

    def ask(question: str, history: Sequence[Message] = ()) -> Any:
        messages = {
            "messages": [*history, {"role": "user", "content": question}],
            "chat_history": [*history],
        }
        return method({name: messages.get(name, question) for name in input_names})

    return ask


def _inputs_of(value: Any) -> list[str]:
    """Return the names under which a graph or a chain takes a question; [] if it takes a text."""
    with suppress(Exception):  # the types are a user's: reading them may fail in any way
        graph = getattr(value, "builder", None)  # of LangGraph
        names = graph.schemas[graph.input_schema] if graph else None
        names = names or value.get_input_jsonschema()["properties"]  # of LangChain
        return [name for name in (*QUESTIONS, "messages", "chat_history") if name in names]
    return []


def _check_arguments(function: Callable[..., Any], name: str) -> None:
    """Raise ConfigError for a function that cannot be called with a question alone."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return
    try:
        # a function with parameters `user_roles` and `history` is called with these, too
        options = accepted_options(function, **_NO_ROLES_OR_HISTORY)
        signature.bind("question", **options)
    except TypeError as exc:
        raise ConfigError(
            f"{name}{signature} cannot be called with a question alone: {exc}; pass a function of the "
            f"question, such as lambda question: {name}(...)"
        ) from None


def accepted_options(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """Return those of the `options` that a function has a parameter for; all options if one of its
    parameters has the type `Asker`, as in `**options: Unpack[Asker]`.

    >>> accepted_options(lambda question, history: question, history=(), user_roles=())
    {'history': ()}
    >>> accepted_options(print, history=())
    {}
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return {}
    # compared as a text, because an annotation may be one
    if any("Asker" in str(parameter) for parameter in parameters):
        return options
    names = {each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY}
    return {name: value for name, value in options.items() if name in names}


def attempt(query_id: str, name: str, ask: Callable[[], object]) -> Answer:
    """Call `ask`, which asks the system `name`, and return its reply as an Answer; a failed answer
    with the reason if it raises.
    """
    try:
        return to_answer(query_id, ask(), name)
    except Exception as exc:  # any exception of a user's system is an outcome of that system
        failure = getattr(exc, "failure", None) or FailureKind.ERROR
        return failed(query_id, f"{type(exc).__name__}: {exc}", failure)


def to_answer(query_id: str, returned: object, name: str) -> Answer:
    """Return the output of a system as an Answer to this question; a failed one with the reason if
    it cannot be read.
    """
    if isinstance(returned, Answer):
        return replace(returned, query_id=query_id)
    try:
        return read_answer(query_id, returned, model=name)
    except DataError as exc:
        reason = f"{name} returned what cannot be read as an answer: {exc}"
        return failed(query_id, reason, FailureKind.UNREADABLE)


def failed(
    query_id: str, error: str, failure: FailureKind = FailureKind.ERROR, **fields: Any
) -> Answer:
    """Return the failed answer for a system that returned none.

    >>> failed("q1", "no reply").outcome
    'failed'
    """
    return Answer(
        query_id, "", outcome="failed", error=without_surrogates(error), failure=failure, **fields
    )


class EventLoop:
    """Runs coroutines of any thread on one event loop; closed by `close`, or when it is no longer
    used.

    It is anyio's blocking portal in a daemon thread, which a coroutine that cannot be cancelled
    does not keep alive.
    """

    def __init__(self, name: str) -> None:
        started: Future[BlockingPortal] = Future()
        thread = threading.Thread(target=_run_event_loop, args=(started,), name=name, daemon=True)
        thread.start()
        self._portal = started.result()
        self._finalizer = weakref.finalize(self, _stop, self._portal, thread)

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and return its value.

        Raises:
            TimeoutError: it took longer than `timeout_s`, and was cancelled.
            InterruptedError: the loop is closed, or was closed before the value came.
        """
        try:
            future: Future[T] = self._portal.start_task_soon(lambda: coroutine)
        except RuntimeError:
            coroutine.close()
            raise InterruptedError("the event loop was closed") from None
        try:
            return future.result(timeout_s)
        except CancelledError:
            raise InterruptedError("the event loop was closed") from None
        except BaseException:  # a time-out or Ctrl-C, too
            future.cancel()
            raise

    def held(self, manager: AbstractAsyncContextManager[T]) -> AbstractContextManager[T]:
        """Return an asynchronous context manager as a plain one: a separate task enters and leaves
        it.
        """
        return self._portal.wrap_async_context_manager(manager)

    def close(self) -> None:
        """Cancel what still runs and end the thread."""
        self._finalizer()


def _run_event_loop(started: Future[BlockingPortal]) -> None:
    """Run an event loop in this thread until its portal is stopped; `started` gets the portal."""
    import anyio
    from anyio.from_thread import BlockingPortal

    async def main() -> None:
        async with BlockingPortal() as portal:
            started.set_result(portal)
            await portal.sleep_until_stopped()

    anyio.run(main)


def _stop(portal: BlockingPortal, thread: threading.Thread) -> None:
    """Cancel the running tasks of an event loop, and wait up to ten seconds for the end of its thread."""
    cancel_remaining = True
    with suppress(RuntimeError):  # it is stopped already, or this is its own thread
        portal.start_task_soon(portal.stop, cancel_remaining)
    if thread is not threading.current_thread():
        thread.join(_MAX_CLOSE_S)
