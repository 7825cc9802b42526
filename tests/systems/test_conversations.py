"""Questions with a history: how they are read, to whom they are put, and how they are compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ragbench as rb
from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.systems import FunctionSystem, HttpSystem, McpSystem, Pipeline, ask
from ragbench.systems.questions import JournaledSystem
from ragbench.types import Call, Case, Dataset, Document

TURNS = (("Who built the railway?", "Brunel."), ("Where is it?", ""))
HISTORY = (
    {"role": "user", "content": "Who built the railway?"},
    {"role": "assistant", "content": "Brunel."},
    {"role": "user", "content": "Where is it?"},
)
CORPUS = {
    "rail": Document("rail", "Brunel built the railway, which opened in 1881."),
    "mill": Document("mill", "The mill opened in 1920, when its owner returned."),
}
DATA = Dataset(
    "demo",
    "test",
    CORPUS,
    [Case("rail<::>3", "When did it open?", turns=TURNS), Case("mill<::>1", "Who returned?")],
    {"rail<::>3": {"rail": 1}, "mill<::>1": {"mill": 1}},
)


def test_turns_are_messages() -> None:
    assert DATA.cases[0].history == HISTORY
    assert DATA.cases[1].history == ()


def test_a_function_that_takes_the_history_gets_it(tmp_path: Path) -> None:
    given: dict[str, Any] = {}

    def answer(question: str, history: Sequence[Mapping[str, str]]) -> str:
        given[question] = history
        return "In 1881."

    ask(JournaledSystem(FunctionSystem(answer), tmp_path / "answers.jsonl"), DATA)
    assert given == {"When did it open?": HISTORY, "Who returned?": ()}
    given.clear()
    rb.evaluate(DATA, answer)
    assert given == {"When did it open?": HISTORY, "Who returned?": ()}


def test_a_graph_gets_the_messages_and_a_chain_its_chat_history() -> None:
    class Graph:
        class builder:  # noqa: N801
            input_schema = "state"
            schemas = {"state": {"messages": 0, "chat_history": 0, "question": 0}}  # noqa: RUF012

        def invoke(self, state: Mapping[str, Any]) -> str:
            return json.dumps(state)

    [answer, _] = ask(FunctionSystem(Graph()), DATA)
    question = {"role": "user", "content": "When did it open?"}
    assert json.loads(answer.text) == {
        "messages": [*HISTORY, question],
        "chat_history": [*HISTORY],
        "question": "When did it open?",
    }


def test_templates_name_the_history(loopback: Any, wire: Any) -> None:
    server = loopback(lambda asked: wire.Answered({"answer": "In 1881."}))
    messages = {"messages": "{history}", "q": "{query}", "text": "{history}\nuser: {query}"}
    with HttpSystem(server.url, body=messages) as system:
        ask(system, DATA, concurrency=1)
    lines = "user: Who built the railway?\nassistant: Brunel.\nuser: Where is it?"
    assert server.asked[0].body == {
        "messages": [*HISTORY],
        "q": "When did it open?",
        "text": f"{lines}\nuser: When did it open?",
    }
    assert server.asked[1].body["messages"] == []
    with HttpSystem(server.url, form={"q": "{query}", "before": "{history}"}) as system:
        assert ask(system, DATA, concurrency=1)[0].text == "In 1881."
    assert server.asked[2].body["before"] == [lines]


def test_a_tool_gets_the_history(notes_command: list[str]) -> None:
    pytest.importorskip("mcp")
    arguments = {"query": "{history} / {query}"}
    with McpSystem(notes_command, tool="echo", arguments=arguments) as system:
        answer = ask(system, DATA)[0]
    assert answer.text.endswith("assistant: Brunel.\nuser: Where is it? / When did it open?")


def test_a_pipeline_searches_the_last_question_all_or_a_rewritten_one() -> None:
    prompts: list[str] = []

    def write(prompt: str) -> str:
        prompts.append(prompt)
        return "When did the railway open?" if "Rewrite" in prompt else "In 1881. [1]"

    def pipeline(history: str) -> Pipeline:
        llm = rb.llms.ScriptedLLM(write)
        return Pipeline(CORPUS, llm=llm, history=history, k=1)

    for history in ("", "last"):
        assert ask(pipeline(history), DATA)[0].calls == ()
        assert not any("railway?" in prompt for prompt in prompts)
    everything = ask(pipeline("all"), DATA)
    assert any("assistant: Brunel." in prompt for prompt in prompts[-2:])  # asked side by side
    assert (everything[0].contexts[0].partition("#")[0], everything[1].calls) == ("rail", ())
    assert [call.name for call in everything[0].calls] == ["all", "last"]
    prompts.clear()
    system = pipeline("rewrite")
    first, second = ask(system, DATA)
    assert first.calls[0] == Call("rewrite", "When did the railway open?")
    found_alone = ask(pipeline("last"), DATA)[0].contexts
    expected = Call("last", DATA.cases[0].text, found_alone)
    assert (first.calls[1:], second.calls) == ((expected,), ())
    assert first.contexts[0].startswith("rail#")
    [rewriting] = [prompt for prompt in prompts if "Rewrite" in prompt]
    assert "Brunel." in rewriting
    alone = system.answer("rail<::>3", "When did it open?", history=HISTORY)
    assert (alone.text, alone.calls) == (first.text, first.calls)
    result = rb.evaluate(DATA, pipeline("rewrite"))
    assert result.answers[0].calls == first.calls


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": "rewrite"}, "'rewrite' asks a language model; name one as llm"),
        ({"history": "rewrite", "rewrite": lambda query: [query]}, "history 'rewrite' asks"),
        ({"history": "rewritten"}, "unknown history 'rewritten'; did you mean 'rewrite'"),
    ],
)
def test_a_history_that_cannot_be_used_is_refused(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Pipeline(CORPUS, **options)


def test_a_grid_and_a_file_have_the_axis(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text('[pipeline]\nhistory = "all"\n')
    system = rb.load_system(tmp_path / "ours.toml", DATA)
    assert [answer.contexts[0][:5] for answer in ask(system, DATA)] == ["rail#", "mill#"]
    assert rb.evaluation.config_name({"k": 5, "history": ""}) == rb.evaluation.config_name({"k": 5})
    assert rb.evaluation.config_name({"k": 5, "history": "all"}) != rb.evaluation.config_name(
        {"k": 5}
    )


def test_a_beir_folder_of_conversations_is_read(tmp_path: Path) -> None:
    text = "|user|: Who built it?\n|agent|: Brunel. \n|user|: When did it open?"
    lines = [{"_id": "a<::>2", "text": text}, {"_id": "b", "text": "|user|: Who returned?"}]
    lines.append({"_id": "c", "text": "What does |user|: mean?"})
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "rail", "text": "x"}) + "\n")
    (tmp_path / "qrels").mkdir()
    rows = "".join(f"{query_id}\trail\t1\n" for query_id in ("a<::>2", "b", "c"))
    (tmp_path / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    first, second, third = rb.load_dataset(str(tmp_path)).cases
    assert (first.text, first.turns) == ("When did it open?", (("Who built it?", "Brunel."),))
    assert (second.text, second.turns) == ("Who returned?", ())
    assert (third.text, third.turns) == ("What does |user|: mean?", ())


@pytest.mark.parametrize(
    ("name", "form"), [("set.yaml", "yaml"), ("set.jsonl", "jsonl"), ("folder", "beir")]
)
def test_turns_are_written_and_read_back(tmp_path: Path, name: str, form: str) -> None:
    rb.testsets.save_testset(DATA, tmp_path / name, form)
    again = rb.load_testset(tmp_path / name)
    assert [case.turns for case in again.cases] == [TURNS, ()]
    assert again.fingerprint == DATA.fingerprint


def test_turns_by_name_and_what_is_no_turn(tmp_path: Path) -> None:
    path = tmp_path / "set.yaml"
    path.write_text(
        "cases:\n- query: When?\n  turns: [{question: Who?, answer: Brunel.}, [Where?, '']]\n"
    )
    [case] = rb.load_testset(path).cases
    assert case.turns == (("Who?", "Brunel."), ("Where?", ""))
    path.write_text("cases:\n- query: Who?\n")
    [first] = rb.load_testset(path).cases
    assert case.query_id == f"{first.query_id}<::>3", "one conversation"
    path.write_text("cases:\n- query: When?\n  turns: [[Who?]]\n")
    with pytest.raises(DataError, match="turns"):
        rb.load_testset(path)


def test_turns_whose_ids_name_no_conversation_are_a_warning() -> None:
    data = Dataset("demo", "test", CORPUS, [Case("q7", "When?", turns=TURNS)], {})
    with pytest.warns(DataWarning, match="comparisons take them for independent.*'q7'"):
        ask(FunctionSystem(str.upper), data)


def scores(values: Mapping[str, float]) -> pd.DataFrame:
    return pd.DataFrame(
        {"query_id": [*values], "measure": "latency_total_ms", "value": values.values()}
    )


def test_conversations_are_compared_as_one_value_each() -> None:
    """Differences 1, 3 | 2, 2, 2 | 4: sums 4, 6, 4 of 3 conversations and 6 questions, halved, less
    the mean of 14 / 6 for each of 1, 1.5 and 0.5 mean lengths, plus the mean.
    """
    zero = dict.fromkeys(["a<::>1", "a<::>2", "b<::>1", "b<::>2", "b<::>3", "c<::>1"], 0.0)
    plain = dict(zip("abc", (2.0, 11 / 6, 19 / 6), strict=True))
    given = dict(zip(zero, (1.0, 3.0, 2.0, 2.0, 2.0, 4.0), strict=True))
    [row] = rb.compare(scores(zero), scores(given)).to_dict("records")
    [same] = rb.compare(scores(dict.fromkeys(plain, 0.0)), scores(plain)).to_dict("records")
    assert row["difference"] == pytest.approx(14 / 6) == same["difference"]
    for name in ("ci_low", "ci_high", "p_value", "mde"):
        assert row[name] == pytest.approx(same[name]), name
    assert (row["n"], row["losses"], row["interval"]) == (6, 6, "t")


def test_the_interval_of_conversations_stays_within_the_measure() -> None:
    values = [1.0, 0.5, 1.0]
    one = pd.DataFrame(
        {"query_id": ["a<::>1", "a<::>2", "b<::>1"], "measure": "RR", "value": values}
    )
    [row] = rb.compare(one, one.assign(value=[0.5, 1.0, 1.0])).to_dict("records")
    assert -1 <= row["ci_low"] <= row["difference"] <= row["ci_high"] <= 1


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("measure", "low", "high"), [("latency_total_ms", 0.035, 0.065), ("RR", 0.0, 0.05)]
)
def test_without_a_difference_one_in_twenty_comparisons_finds_one(
    measure: str, low: float, high: float
) -> None:
    """40 conversations of 1 to 9 turns, half of whose variance is the conversation's."""
    rng = np.random.default_rng(0)
    alarms, naive, n = 0, 0, 1000
    for _ in range(n):
        lengths = rng.integers(1, 10, 40)
        owner = np.repeat(np.arange(40), lengths)
        effect = rng.normal(size=40)[owner] + rng.normal(size=len(owner))
        if measure == "RR":
            effect = np.clip(0.5 + effect / 8, 0, 1) - 0.5
        for mark in ("<::>", "-"):
            ids = [f"{conversation}{mark}{turn}" for turn, conversation in enumerate(owner)]
            tables = [
                pd.DataFrame({"query_id": ids, "measure": measure, "value": values})
                for values in (np.full(len(ids), 0.5), 0.5 + effect)
            ]
            found = bool(rb.compare(*tables)["p_value"].iloc[0] < 0.05)
            alarms += found and mark == "<::>"
            naive += found and mark == "-"
    print(measure, alarms / n, naive / n)
    assert low <= alarms / n <= high
    assert naive / n > 0.08


_SYSTEM = """
def answer(question, history):
    first = {"name": "search", "query": question, "contexts": [{"id": "mill", "doc_id": "mill"}]}
    second = {"name": "search", "query": "railway", "contexts": [{"id": i, "doc_id": i} for i in ("mill", "rail")]}
    return {"answer": "In 1881.", "calls": [first, second] if history else [first], "contexts": [{"id": "mill"}]}
"""


def test_the_notebook_shows_measures_by_turn_and_the_rank_of_gold_by_call(
    tmp_path: Path, execute_notebook: Any
) -> None:
    rb.testsets.save_testset(DATA, tmp_path / "talks.yaml", "yaml")
    (tmp_path / "my_rag.py").write_text(_SYSTEM, encoding="utf-8")
    notebook = Path(__file__).parents[2] / "notebooks" / "evaluate.ipynb"
    options = {"dataset": "talks.yaml", "system": "my_rag:answer", "results_dir": "out"}
    executed = execute_notebook(notebook, tmp_path, **options, perspectives="retrieval")
    shown = {
        cell.id: "\n".join(output.data.get("text/plain", "") for output in cell.outputs)
        for cell in executed.cells
        if cell.id in ("cell-turns", "cell-calls")
    }
    assert "questions" in shown["cell-turns"]
    assert "gold_found" in shown["cell-calls"]
    assert "2.0" in shown["cell-calls"]  # the second search has it in second place
