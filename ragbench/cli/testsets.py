"""`ragbench testset`: make test sets from documents, convert and check them."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ragbench import generation, llms
from ragbench.cli.console import command, shown
from ragbench.cli.help import Commands
from ragbench.cli.init import path_from, text_of_testset
from ragbench.cli.options import (
    AtLeast0,
    AtLeast1,
    Concurrency,
    Corpus,
    Force,
    Model,
    Requests,
    Timeout,
    print_plan,
)
from ragbench.errors import ConfigError, check_known, plural, printable
from ragbench.files import expanded, write_durably
from ragbench.types import LLM, Case, Chunk, Dataset

testset_app = Commands(
    "Make a test set from documents; convert and check test sets.",
    "testset convert my.yaml my.jsonl",
)


@testset_app.register()
def generate(
    corpus: str,
    *,
    output: Path,
    llm: Model = "env",
    checker: str = "",
    chunks: AtLeast1 = 50,
    questions: AtLeast0 = 0,
    per_chunk: Annotated[int, typer.Option(min=1, max=10)] = 2,
    sample: str = "random",
    seed: int = 0,
    name: str = "",
    client: str = "",
    force: Force = False,
    concurrency: Concurrency = 8,
    timeout_s: Timeout = llms.TIMEOUT_S,
    requests: Requests,
) -> int:
    """Sample chunks, let a model draft and check questions about them, and write a BEIR folder with
    gold spans.

    A test set that is replaced keeps its name, client and time of creation (testset.json). The
    folder is written at the end; after an interruption, the same command continues from the replies
    received so far. Exit status: 0 all is well, 1 some requests failed, 2 nothing could be done, 130
    interrupted.

    Args:
        corpus: A folder of texts, a corpus.jsonl, a BEIR folder, a name.
        output: Folder of the test set.
        checker: Model that checks the answers; '' means the same model.
        chunks: Number of chunks to draft questions about.
        questions: Number of accepted questions, in place of --chunks: rejected drafts are replaced
            by drafts about further chunks.
        per_chunk: Questions to draft per chunk.
        sample: random, diverse or recent.
        seed: Random seed of the sampling.
        name: Name of the test set; default: its present name, or the folder's.
        client: Client of the test set; default: its present client.

    Example: ragbench testset generate my-documents --output my-testset --llm ollama:llama3.1:8b --dry-run
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.retrieval.chunkers import chunk
    from ragbench.testsets.writer import check_free

    if questions:
        chunks = math.ceil(questions / per_chunk)
    with requests.settings() as settings:
        model = llms.load_llm(llm, settings)
        judge = llms.load_llm(checker, settings) if checker else model
        if not requests.dry_run:
            check_free(output, force)
        data = load_corpus(corpus)
        pieces = chunk(data)
        sampled = generation.sample_chunks(data, pieces, chunks, sample, seed=seed)
        _print_sample(
            len(sampled), len(pieces), chunks, f"{per_chunk} questions each, by {model.name}"
        )
        options: dict[str, Any] = {"checker": judge, "per_chunk": per_chunk}
        if requests.dry_run:
            _print_requests(data, sampled, model, options)
            return 0
        options |= {"concurrency": concurrency, "timeout_s": timeout_s}
        if questions:
            drafts = generation.draft_questions(
                data, pieces, questions, model, how=sample, seed=seed, **options
            )
        else:
            drafts = generation.generate_drafts(data, sampled, model, **options)
        parameters: dict[str, Any] = {
            "llm": model.name,
            "checker": judge.name,
            "sample": sample,
            "chunks": chunks,
            "questions": questions,
            "seed": seed,
            "per_chunk": per_chunk,
            "chunker": "recursive",
            "size": 256,
            "source": data.name,
        }
        if not questions:
            del parameters["questions"]
        about = generation.identity(output, name=name, client=client)
        dataset = generation.as_dataset(data, drafts, name=about["name"])
        folder = generation.save_drafts(
            dataset, drafts, output, parameters=parameters, about=about, force=force
        )
    return _print_drafts(drafts, len(dataset.cases), folder, n_wanted=questions)


def _print_requests(
    data: Dataset, sampled: Sequence[Chunk], model: LLM, options: Mapping[str, Any]
) -> None:
    """Print the requests that drafts about these chunks would take; nothing is sent."""
    with llms.dry_run() as plan:
        generation.generate_drafts(data, sampled, model, **options)
    print_plan(plan)


def _print_sample(n_sampled: int, n_chunks: int, n_wanted: int, plan: str) -> None:
    """Print how many chunks were sampled, and why they are fewer than `n_wanted`, if so."""
    typer.echo(f"{n_sampled} of {n_chunks} chunks, {plan}.")
    if n_sampled < n_wanted:
        typer.echo(
            f"That is fewer than {n_wanted}: the others are too short, or have no date where one is "
            "needed."
        )


def _print_drafts(
    drafts: list[generation.Draft], questions: int, folder: Path, *, n_wanted: int
) -> int:
    """Print why there are fewer questions than `n_wanted`, if so, and the number of drafts in each
    state; return the exit status, 1 if requests failed.
    """
    if questions < n_wanted:
        typer.echo(
            f"That is {questions} of {n_wanted} questions: the other drafts were rejected, or no chunk "
            "is left to ask about."
        )
    for row in generation.drafts_table(drafts).itertuples():
        typer.echo(f"{row.drafts:>6}  {row.state:<13} {row.meaning}")
    failed = sum(draft.state in ("failed", "unchecked") for draft in drafts)
    typer.echo(
        f"{questions} questions in {shown(folder)}; every draft and its reason in drafts.jsonl"
    )
    if failed:
        typer.echo(
            f"{failed} requests failed or could not be read; the first ones are named in "
            "drafts.jsonl",
            err=True,
        )
    typer.echo(
        f"Next: read some of them, then {command('ragbench')} eval --test-set {shown(folder)}"
    )
    return bool(failed)


@testset_app.register()
def convert(
    source: Annotated[str, typer.Argument(metavar="IN")],
    target: Annotated[Path | None, typer.Argument(metavar="OUT")] = None,
    *,
    into: Path | None = None,
    to: str = "",
    corpus: Corpus = "",
    with_documents: bool = False,
    without_documents: bool = False,
    no_answer: str = "",
    force: Force = False,
) -> None:
    """Write a test set as YAML, JSONL or a BEIR folder, which hold every label, or as nuggets; or add
    its questions to an existing one.

    IN may be of another tool: ragas, DeepEval, promptfoo, a
    spreadsheet (.csv) with question, answer, source. With --docs, expected sections and reference
    contexts are located in the documents and become gold evidence. A .yaml or .jsonl refers to
    its documents by path if IN or --docs does, and contains them otherwise. Exit status: 0 all is well, 2
    nothing is written.

    Args:
        source: A test set, or the name of a dataset such as pydoc.
        target: A .yaml or .jsonl file, or a folder.
        into: An existing .yaml or .jsonl, instead of OUT: questions that it does not ask are added.
        to: yaml, jsonl, beir (a folder), or nuggets (questions and gold facts as TREC has them);
            default: by the name.
        with_documents: Copy the documents into a .yaml or .jsonl.
        without_documents: Leave the documents out of a .yaml or .jsonl.
        no_answer: What questions without an answer and a document are: unanswerable (by these
            documents), or unknown; default: asked on a terminal.

    Example: ragbench testset convert questions.csv --into tests.yaml
    """
    from ragbench.testsets.forms import save_testset, suffix_form

    if no_answer:
        check_known("kind of a question without an answer", _NO_ANSWER, no_answer)
    if into is not None:
        if target is not None:
            raise ConfigError(f"both {target} and --into {into} are named; name one of them")
        if to or with_documents or without_documents or force:
            raise ConfigError(
                "--to, --with-documents, --without-documents and --force are for a new file; leave "
                f"them out with --into, which adds to {into} in its own form"
            )
        _append(source, into, corpus, no_answer)
        return
    if target is None:
        raise ConfigError("nothing says where to write; name a file, or an existing one by --into")
    if with_documents and without_documents:
        raise ConfigError("--with-documents and --without-documents exclude each other; keep one")
    form = to or suffix_form(target)
    dataset = _with_outcomes(_load(source, corpus), no_answer)
    corpus_path = ""  # the file contains its documents, or has none
    if without_documents and form != "beir":  # a BEIR folder always has its documents
        dataset = replace(dataset, corpus={})
    elif not with_documents:
        corpus_path = _corpus_path(source, corpus, target)
    saved = save_testset(dataset, target, form, corpus=corpus_path, force=force)
    typer.echo(f"{plural(len(dataset.cases), 'case')} in {shown(saved)} ({form})")


@testset_app.register()
def merge(
    sources: Annotated[list[str], typer.Argument(metavar="IN...")],
    *,
    output: Path,
    corpus: Corpus = "",
    no_answer: str = "",
    force: Force = False,
) -> None:
    """Write several test sets of the same documents as one, without questions that ask the same.

    The first set is kept as it is; of the others, a question is left out if its embedding is close
    to the embedding of an earlier question (cosine of 0.92 or more), so name the questions of
    people first. A person's question is left out only if a person asked the earlier one, and if it
    has no label (answer, facts, evidence, documents) that the earlier one lacks. Exit status: 0 all
    is well, 2 nothing is written.

    Args:
        sources: Test sets, as for `convert`.
        output: A .yaml or .jsonl file, or a folder.
        no_answer: As for `convert`.

    Example: ragbench testset merge questions.csv drafts.yaml generated --docs docs --output tests.yaml
    """
    from ragbench.testsets.forms import save_testset, suffix_form
    from ragbench.testsets.merge import merged, missing_cases

    form = suffix_form(output)
    if no_answer:
        check_known("kind of a question without an answer", _NO_ANSWER, no_answer)
    dataset = _with_outcomes(_load(sources[0], corpus), no_answer)
    counts = [f"{len(dataset.cases)} of {sources[0]}"]
    corpus_path = _corpus_path(sources[0], corpus, output)
    documents_there = dataset.corpus
    twins: list[tuple[str, str]] = []
    for source in sources[1:]:
        other = _with_outcomes(_load(source, corpus), no_answer)
        addition = missing_cases(dataset, other, _twins)
        dataset = merged(dataset, other, addition)
        counts.append(f"{len(addition.cases)} of the {len(other.cases)} of {source}")
        twins += addition.twins
        if not corpus_path:
            corpus_path = _corpus_path(source, corpus, output)
            documents_there = other.corpus
    if documents_there.keys() != dataset.corpus.keys():  # one set has other documents
        corpus_path = ""
    saved = save_testset(dataset, output, form, corpus=corpus_path, force=force)
    n_cases = plural(len(dataset.cases), "case")
    typer.echo(f"{n_cases} in {shown(saved)} ({form}): {', '.join(counts)}")
    _print_twins(twins)


_NO_ANSWER = ("unanswerable", "unknown")


def _load(source: str, corpus: str) -> Dataset:
    """Return a test set with these documents, or with its own if it holds any."""
    from ragbench.testsets.forms import is_testset
    from ragbench.testsets.loader import load_dataset

    takes_documents = corpus and is_testset(expanded(source))
    return load_dataset(source, corpus=corpus if takes_documents else "")


def _corpus_path(source: str, corpus: str, target: Path) -> str:
    """Return the path by which a file at `target` refers to the documents of the test set `source`; ""
    if the set itself contains them.
    """
    from ragbench.testsets.forms import form_of, is_testset, read

    path = expanded(source)
    if not path.exists() or not is_testset(path):
        return ""
    if corpus:
        return path_from(corpus, target.parent)
    named = read(path, form_of(path)).corpus
    if named and (path.parent / named).exists():
        named = str(path.parent / named)
    return path_from(named, target.parent) if named else ""


def _append(source: str, into: Path, corpus: str, no_answer: str) -> None:
    """Add the questions of a test set that `into` does not ask, and print their number."""
    from ragbench.testsets.forms import load_testset
    from ragbench.testsets.merge import missing_cases

    testset = load_testset(into)
    other = _load(source, corpus) if corpus else load_testset(source, corpus=testset.corpus or None)
    other = _with_outcomes(other, no_answer, must_choose=True)  # a second call would add them again
    addition = missing_cases(testset, other, _twins)
    _add_cases(into, testset, replace(other, cases=addition.cases, qrels=addition.qrels))
    typer.echo(f"{len(addition.cases)} of {len(other.cases)} cases are added to {shown(into)}")
    _print_twins(addition.twins)


def _twins(questions: Sequence[str], known: Sequence[str]) -> list[str | None]:
    from ragbench.generation.drafts import duplicates
    from ragbench.retrieval.embedders import load_embedder

    return duplicates(questions, known, load_embedder("minilm"))


def _print_twins(twins: Sequence[tuple[str, str]]) -> None:
    """Show which questions are left out because another one asks the same."""
    if not twins:
        return
    are_left_out = "question is" if len(twins) == 1 else "questions are"
    typer.echo(f"{len(twins)} {are_left_out} left out, as another one asks the same:")
    for question, twin in twins:
        typer.echo(f"  {printable(question)!r} as {printable(twin)!r}")


def _with_outcomes(dataset: Dataset, no_answer: str, *, must_choose: bool = False) -> Dataset:
    """Return a test set in which questions without any label are unanswerable if `no_answer` is
    "unanswerable"; "unknown" leaves them as they are.

    If `no_answer` is "", the user is asked at a terminal. Elsewhere the questions stay as they are, with
    a note. A test set in which all questions have answers, or none has, is returned unchanged.

    Raises:
        ConfigError: there is no terminal, `no_answer` is "", and the user `must_choose`.
    """
    labelled = [case for case in dataset.cases if case.reference_answer or case.gold_facts]
    if not labelled or len(labelled) == len(dataset.cases):
        return dataset  # an answer that is nowhere, or everywhere, raises no doubt
    unlabelled = [case for case in dataset.cases if not _has_label(dataset, case)]
    if not unlabelled:
        return dataset
    of_all = f"of the {len(dataset.cases)} questions in {dataset.name!r}"
    have = "has" if len(unlabelled) == 1 else "have"
    first = printable(unlabelled[0].text)
    state = f"{len(unlabelled)} {of_all} {have} no answer and no document, first {first!r}"
    if not no_answer and sys.stdin.isatty():
        is_unanswerable = typer.confirm(f"{state}. Should a system find no answer to them?")
        no_answer = "unanswerable" if is_unanswerable else "unknown"
    if not no_answer and must_choose:
        raise ConfigError(
            f"{state}. Should a system find no answer to them? --no-answer unanswerable, or else "
            "--no-answer unknown"
        )
    if not no_answer:
        typer.echo(
            f"{state}: they stay without labels. If no document answers them: --no-answer "
            "unanswerable",
            err=True,
        )
    if no_answer != "unanswerable":
        return dataset
    ids = {case.query_id for case in unlabelled}
    cases = [
        replace(case, expected_outcome="no_results") if case.query_id in ids else case
        for case in dataset.cases
    ]
    return replace(dataset, cases=tuple(cases))


def _has_label(dataset: Dataset, case: Case) -> bool:
    """Return True if a case states a right answer, or a place that holds one."""
    return bool(
        case.reference_answer
        or case.gold_facts
        or case.required_keywords
        or case.expected_claims
        or case.expected_outcome
        or case.evidence
        or case.expected_sections
        or dataset.qrels.get(case.query_id)
    )


@testset_app.register()
def validate(
    path: Annotated[Path, typer.Argument(metavar="TESTSET")], *, corpus: Corpus = ""
) -> int:
    """List every problem of a test set: file, line, field, value, and the expected form.

    With --docs its labels are compared with the documents: evidence, sections, names of
    documents. Gold facts that no labelled passage holds are named; they may be right in other
    words, and are no problem. Exit status: 0 there is no problem, 1 there are some, 2 there is no test set at that
    place.

    Args:
        path: A .yaml, .json or .jsonl file, or a folder.

    Example: ragbench testset validate my.yaml --docs docs/
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.metrics.answer_similarity import facts_without_source
    from ragbench.testsets.forms import form_of, load_testset, validate_testset

    documents = load_corpus(corpus).corpus if corpus else None
    if problems := validate_testset(path, corpus=documents):
        typer.echo("\n".join(map(str, problems)))
        typer.echo(f"Problems in {shown(path)}: {len(problems)}", err=True)
        return 1
    dataset = load_testset(path, corpus=documents)  # warns of flaws that are not errors
    for query_id, fact in facts_without_source(dataset):
        typer.echo(
            f"{printable(query_id)}: no labelled passage holds the gold fact {printable(fact)!r}",
            err=True,
        )
    samples = len(dataset.safety_inputs) + len(dataset.safety_outputs)
    safety = f", {samples} safety samples" if samples else ""
    n_cases = plural(len(dataset.cases), "case")
    typer.echo(f"{shown(path)} is fine: {form_of(path)}, {n_cases}{safety}")
    return 0


@testset_app.register()
def draft(
    *,
    docs: str,
    output: Path = Path("drafts.yaml"),
    limit: AtLeast1 = 40,
    seed: int = 0,
    name: str = "",
) -> None:
    """Draft questions without a language model: headings and distinctive sentences, with gold
    evidence.

    They ask for a passage by its own words (known-item search), which favours lexical search: good
    for a first look, not for a decision. `ragbench testset generate` asks a language model. Exit
    status: 0 all is well, 2 nothing is written.

    Args:
        docs: Your documents: a folder of .md, .rst, .txt, .html, .pdf and .docx files, a
            corpus.jsonl, or a dataset's name.
        output: A .yaml file; if it exists, the drafts are added to it.
        limit: Questions at most.
        seed: Of the choice.
        name: Of the test set; default: the name of the documents.

    Example: ragbench testset draft --docs docs --output drafts.yaml
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.testsets import draft_known_items, load_testset

    if output.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--output is {output}; expected a file that ends in .yaml")
    data = draft_known_items(load_corpus(docs), limit, seed=seed)
    n_added = len(data.cases)
    if output.exists():
        testset = load_testset(output)
        asked = {*testset.queries.values()}
        data = replace(data, cases=tuple(case for case in data.cases if case.text not in asked))
        _add_cases(output, testset, data)
        n_added = len(data.cases)
    else:
        name = name or f"{data.name} (known-item drafts)"
        head = (
            "# Drafts: known-item questions, made from the documents by a program. Keep what "
            "users would ask.\n"
        )
        write_durably(output, head + text_of_testset(data, path_from(docs, output.parent), name))
    typer.echo(
        f"{n_added} drafts in {shown(output)}, from {len(data.corpus)} documents (category: "
        "known-item draft)\n"
        "They ask for passages by their own words, which favours bm25; your users ask differently."
    )
    if n_added < limit:
        others = "the others were there already, or no passage with distinctive words is left"
        typer.echo(f"That is fewer than {limit}: {others}.")


def _add_cases(path: Path, testset: Dataset, data: Dataset) -> None:
    """Add cases with their labels at the end of a YAML or JSONL test set of the same documents."""
    from ragbench.testsets.cases import entry_of_case
    from ragbench.testsets.edits import add_entries

    named = {span.doc_id for case in data.cases for span in case.evidence}
    if testset.corpus and (other := sorted(named - {*testset.corpus})):
        raise ConfigError(
            f"the documents of {path} are others: they lack {other[0]!r}; name another file"
        )
    add_entries(path, [entry_of_case(data, case) for case in data.cases])
