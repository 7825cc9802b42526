"""`ragbench testset`: make test sets from documents, convert, merge and check them; what happens
with questions without labels.
"""

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
        judge = llms.load_llm(checker, settings) if checker else model  # checks the drafts
        if not requests.dry_run:
            check_free(output, force)
        data = load_corpus(corpus)
        all_chunks = chunk(data)
        sampled = generation.sample_chunks(data, all_chunks, chunks, sample, seed=seed)
        _print_sample(
            len(sampled), len(all_chunks), chunks, f"{per_chunk} questions each, by {model.name}"
        )
        options: dict[str, Any] = {"checker": judge, "per_chunk": per_chunk}
        if requests.dry_run:
            _print_requests(data, sampled, model, options)
            return 0
        options |= {"concurrency": concurrency, "timeout_s": timeout_s}
        if questions:  # about further chunks, too, until enough questions are accepted
            drafts = generation.draft_questions(
                data, all_chunks, questions, model, how=sample, seed=seed, **options
            )
        else:
            drafts = generation.generate_drafts(data, sampled, model, **options)
        parameters = {
            "llm": model.name,
            "checker": judge.name,
            "sample": sample,
            "chunks": chunks,
            **({"questions": questions} if questions else {}),
            "seed": seed,
            "per_chunk": per_chunk,
            "chunker": "recursive",
            "size": 256,
            "source": data.name,
        }
        identity = generation.identity(output, name=name, client=client)
        dataset = generation.as_dataset(data, drafts, name=identity["name"])
        folder = generation.save_drafts(
            dataset, drafts, output, parameters=parameters, about=identity, force=force
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
    drafts: list[generation.Draft], n_accepted: int, folder: Path, *, n_wanted: int
) -> int:
    """Print the number of drafts in each state; return the exit status, 1 if requests failed, else
    0.

    If fewer than `n_wanted` questions were accepted, print why.
    """
    if n_accepted < n_wanted:
        typer.echo(
            f"That is {n_accepted} of {n_wanted} questions: the other drafts were rejected, or no "
            "chunk is left to ask about."
        )
    for row in generation.drafts_table(drafts).itertuples():
        typer.echo(f"{row.drafts:>6}  {row.state:<13} {row.meaning}")
    n_failed = sum(draft.state in ("failed", "unchecked") for draft in drafts)
    typer.echo(
        f"{n_accepted} questions in {shown(folder)}; every draft and its reason in drafts.jsonl"
    )
    if n_failed:
        typer.echo(
            f"{n_failed} requests failed or could not be read; the first ones are named in "
            "drafts.jsonl",
            err=True,
        )
    typer.echo(
        f"Next: read some of them, then {command('ragbench')} eval --test-set {shown(folder)}"
    )
    return int(n_failed > 0)


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

    IN may be a file of another tool, such as ragas, DeepEval or promptfoo, or a spreadsheet (.csv)
    with the columns question, answer and source. With --docs, expected sections and reference
    contexts are located in the documents and become gold evidence. A .yaml or .jsonl refers to
    its documents by path if IN or --docs does, and contains them otherwise. Exit status: 0 all is well, 2
    nothing is written.

    Args:
        source: A test set, or the name of a dataset such as pydoc.
        target: A .yaml or .jsonl file, or a folder.
        into: An existing .yaml or .jsonl, instead of OUT; questions that it does not have are added.
        to: yaml, jsonl, beir (a folder), or nuggets (questions and gold facts as TREC has them);
            default: by the name of OUT.
        with_documents: Copy the documents into a .yaml or .jsonl.
        without_documents: Leave the documents out of a .yaml or .jsonl.
        no_answer: How to treat questions without an answer and a document: unanswerable (by these
            documents), or unknown; default: ask on a terminal.

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
        _add_missing_questions(source, into, corpus, no_answer)
        return
    if target is None:
        raise ConfigError("no file to write; name one, or an existing test set by --into")
    if with_documents and without_documents:
        raise ConfigError("--with-documents and --without-documents exclude each other; keep one")
    form = to or suffix_form(target)
    dataset = _mark_unanswerable(_load(source, corpus), no_answer)
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
    first, *others = sources
    dataset = _mark_unanswerable(_load(first, corpus), no_answer)
    counts = [f"{len(dataset.cases)} of {first}"]
    # The new file refers to documents by the path in the first set that has one, if the documents there
    # are the documents of all sets; else (path "") it contains them.
    corpus_path = _corpus_path(first, corpus, output)
    documents_at_path = dataset.corpus
    left_out: list[tuple[str, str]] = []  # a question, and the earlier one that asks the same
    for source in others:
        other = _mark_unanswerable(_load(source, corpus), no_answer)
        # its new cases, and `twins`: the left-out questions with those that ask the same
        addition = missing_cases(dataset, other, _same_questions)
        dataset = merged(dataset, other, addition)
        counts.append(f"{len(addition.cases)} of the {len(other.cases)} of {source}")
        left_out += addition.twins
        if not corpus_path:
            corpus_path = _corpus_path(source, corpus, output)
            documents_at_path = other.corpus
    if documents_at_path.keys() != dataset.corpus.keys():
        corpus_path = ""
    saved = save_testset(dataset, output, form, corpus=corpus_path, force=force)
    n_cases = plural(len(dataset.cases), "case")
    typer.echo(f"{n_cases} in {shown(saved)} ({form}): {', '.join(counts)}")
    _print_left_out(left_out)


_NO_ANSWER = ("unanswerable", "unknown")


def _load(source: str, corpus: str) -> Dataset:
    """Return a test set with these documents, or with its own if it holds any."""
    from ragbench.testsets.forms import is_testset
    from ragbench.testsets.loader import load_dataset

    takes_documents = corpus and is_testset(expanded(source))
    return load_dataset(source, corpus=corpus if takes_documents else "")


def _corpus_path(source: str, corpus: str, target: Path) -> str:
    """Return the path of a test set's documents, to be written into a new test-set file; "" if the new
    file has to contain the documents.

    The path is `corpus` (--docs), else the path in the test set. It is "" if the test set contains its
    documents. It is also "", whatever `corpus` is, if the source is not a test-set file but the name of
    a dataset or a BEIR folder, which has its own documents.

    Args:
        source: the test set.
        corpus: the documents that the user names; "" if none.
        target: the new file; the path is relative to its folder.
    """
    from ragbench.testsets.forms import form_of, is_testset, read

    path = expanded(source)
    if not path.exists() or not is_testset(path):
        return ""
    if corpus:
        return path_from(corpus, target.parent)
    corpus_in_file = read(path, form_of(path)).corpus  # a path relative to the file, or a name
    if not corpus_in_file:
        return ""
    beside_file = path.parent / corpus_in_file
    # the name of a dataset, which is no path, is returned as it is
    return path_from(str(beside_file) if beside_file.exists() else corpus_in_file, target.parent)


def _add_missing_questions(source: str, into: Path, corpus: str, no_answer: str) -> None:
    """Add the questions of a test set to a file, except questions that the file asks already, and print how
    many were added.

    Args:
        source: the test set with the new questions.
        into: the file, with a test set of ragbench's own form.
        corpus: the documents of both (--docs); "" stands for the documents of the file.
        no_answer: the meaning of new questions without a label: "unanswerable", "unknown", or "" to ask
            the user.
    """
    from ragbench.testsets.forms import load_testset
    from ragbench.testsets.merge import missing_cases

    testset = load_testset(into)
    if corpus:
        new = _load(source, corpus)
    else:
        new = load_testset(source, corpus=testset.corpus or None)
    # Mark first, then compare with the file. If the source was added before, the file has its questions
    # with marks; a question without its mark would not equal them and would be added again.
    new = _mark_unanswerable(new, no_answer, must_choose=True)
    addition = missing_cases(testset, new, _same_questions)
    _write_cases(into, testset, replace(new, cases=addition.cases, qrels=addition.qrels))
    typer.echo(f"{len(addition.cases)} of {len(new.cases)} cases are added to {shown(into)}")
    _print_left_out(addition.twins)  # (question left out, question of the file that asks the same)


def _same_questions(questions: Sequence[str], known: Sequence[str]) -> list[str | None]:
    """Return for each question the known one that asks the same, by their embeddings; None if there is
    none.
    """
    from ragbench.generation.drafts import duplicates
    from ragbench.retrieval.embedders import load_embedder

    return duplicates(questions, known, load_embedder("minilm"))


def _print_left_out(pairs: Sequence[tuple[str, str]]) -> None:
    """Print the questions that are left out, each with the earlier one that asks the same."""
    if not pairs:
        return
    are_left_out = "question is" if len(pairs) == 1 else "questions are"
    typer.echo(f"{len(pairs)} {are_left_out} left out, as another one asks the same:")
    for question, earlier in pairs:
        typer.echo(f"  {printable(question)!r} as {printable(earlier)!r}")


def _mark_unanswerable(dataset: Dataset, no_answer: str, *, must_choose: bool = False) -> Dataset:
    """Mark the questions of a test set that have no label as unanswerable, if the user wants it.

    A missing answer may mean "no document answers this" or "nobody wrote it yet". There is no doubt if
    all questions have answers, or none has: such a test set is returned unchanged.

    Args:
        no_answer: "unanswerable"; "unknown" leaves the questions as they are; "" asks at a terminal, and
            elsewhere leaves them, with a note.
        must_choose: raise in place of the note.

    Raises:
        ConfigError: there is no terminal, `no_answer` is "", and the user `must_choose`.
    """
    _note_denying_references(
        dataset,
        "leave their answers out, and add --no-answer unanswerable",
    )
    n_answered = sum(bool(case.reference_answer or case.gold_facts) for case in dataset.cases)
    if n_answered in (0, len(dataset.cases)):
        return dataset  # an answer that is nowhere, or everywhere, raises no doubt
    unlabelled = [case for case in dataset.cases if not _has_label(dataset, case)]
    if not unlabelled:
        return dataset
    no_answer = no_answer or _chosen_meaning(unlabelled, dataset, must_choose=must_choose)
    if no_answer != "unanswerable":
        return dataset
    ids = {case.query_id for case in unlabelled}
    cases = [
        replace(case, expected_outcome="no_results") if case.query_id in ids else case
        for case in dataset.cases
    ]
    return replace(dataset, cases=tuple(cases))


def _note_denying_references(dataset: Dataset, way_out: str) -> None:
    """Name the questions whose reference answer seems to state that there is no answer: a system that
    abstains from them fails.

    `way_out` is what to do if no document answers them.
    """
    from ragbench.metrics.denials import denying_references

    denying = denying_references(dataset)
    if not denying:
        return
    named = [f"{case.query_id} ({case.reference_answer})" for case in denying]
    typer.echo(
        f"{len(denying)} of {plural(len(dataset.cases), 'question')} expect an answer that may state that "
        f"there is none: {printable(', '.join(named))}; if no document answers them, {way_out}",
        err=True,
    )


def _chosen_meaning(unlabelled: list[Case], dataset: Dataset, *, must_choose: bool) -> str:
    """Return what the user means by questions without a label: "unanswerable" or "unknown".

    The user is asked at a terminal. Without one, a note is printed and "unknown" returned; or
    ConfigError is raised if the user `must_choose`.
    """
    of_all = f"of the {len(dataset.cases)} questions in {dataset.name!r}"
    have = "has" if len(unlabelled) == 1 else "have"
    first = printable(unlabelled[0].text)
    state = f"{len(unlabelled)} {of_all} {have} no answer and no document, first {first!r}"
    if sys.stdin.isatty():
        is_unanswerable = typer.confirm(f"{state}. Should a system find no answer to them?")
        return "unanswerable" if is_unanswerable else "unknown"
    if must_choose:
        raise ConfigError(
            f"{state}. If a system should find no answer to them, add --no-answer unanswerable, otherwise "
            "--no-answer unknown"
        )
    typer.echo(
        f"{state}: they stay without labels. If no document answers them: --no-answer unanswerable",
        err=True,
    )
    return "unknown"


def _has_label(dataset: Dataset, case: Case) -> bool:
    """Return True if a case has any label by which an answer or a search can be judged."""
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

    With --docs, its labels (evidence, sections, names of documents) are compared with the documents.
    Gold facts that no labelled passage contains are listed, but do not count as problems: they may be
    right in other words. Exit status: 0 there is no problem, 1 there are problems, 2 there is no test
    set at this path.

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
    _note_denying_references(
        dataset, "write expected_outcome: no_results in place of reference_answer"
    )
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
        limit: Maximum number of questions.
        seed: Random seed of the choice.
        name: Name of the test set; default: the name of the documents.

    Example: ragbench testset draft --docs docs --output drafts.yaml
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.testsets import draft_known_items

    if output.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--output is {output}; expected a file that ends in .yaml")
    drafts = draft_known_items(load_corpus(docs), limit, seed=seed)
    if output.exists():
        n_added = _add_drafts(output, drafts)
    else:
        n_added = len(drafts.cases)
        name = name or f"{drafts.name} (known-item drafts)"
        head = (
            "# Drafts: known-item questions, made from the documents by a program. Keep what "
            "users would ask.\n"
        )
        write_durably(output, head + text_of_testset(drafts, path_from(docs, output.parent), name))
    typer.echo(
        f"{n_added} drafts in {shown(output)}, from {len(drafts.corpus)} documents (category: "
        "known-item draft)\n"
        "They ask for passages by their own words, which favours bm25; your users ask differently."
    )
    if n_added < limit:
        others = "the others were there already, or no passage with distinctive words is left"
        typer.echo(f"That is fewer than {limit}: {others}.")


def _add_drafts(path: Path, drafts: Dataset) -> int:
    """Add the drafts that a test-set file does not ask yet to it, and return their number."""
    from ragbench.testsets import load_testset

    testset = load_testset(path)
    asked = {*testset.queries.values()}
    new_cases = tuple(case for case in drafts.cases if case.text not in asked)
    _write_cases(path, testset, replace(drafts, cases=new_cases))
    return len(new_cases)


def _write_cases(path: Path, testset: Dataset, addition: Dataset) -> None:
    """Write the cases of `addition`, with their labels, at the end of the YAML or JSONL file `path`,
    which holds `testset`.

    Raises:
        ConfigError: a case has evidence in a document that the test set does not have.
    """
    from ragbench.testsets.cases import entry_of_case
    from ragbench.testsets.edits import add_entries

    # the documents that the new cases have evidence in
    with_evidence = {span.doc_id for case in addition.cases for span in case.evidence}
    # of these, the ones that the test set lacks; without documents it may be about any
    foreign = sorted(with_evidence - testset.corpus.keys()) if testset.corpus else []
    if foreign:
        raise ConfigError(
            f"the documents of {path} do not include {foreign[0]!r}; name another file"
        )
    add_entries(path, [entry_of_case(addition, case) for case in addition.cases])
