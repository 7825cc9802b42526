"""The sentences of a report, the same in Markdown, HTML and on the console: verdict, counts, costs,
doubts about a judge; which failed questions are listed, and in which order.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ragbench.errors import as_sentence, plural, printable
from ragbench.evaluation import Result, Results
from ragbench.evaluation.perspectives import attribution_doubt
from ragbench.evaluation.records import (
    BUILT_IN,
    SAFETY,
    SHOWN_ONLY,
    CaseResult,
    Change,
    Cost,
    MeasureResult,
    PassFail,
    cost_without_samples,
    total_cost,
)
from ragbench.evaluation.rows import brief_names, headline_name, is_shown
from ragbench.groups import grouped
from ragbench.judges.card import card_sentence, is_card
from ragbench.judges.judgements import writer_among
from ragbench.registry import HEADLINE, is_ranking_measure
from ragbench.statistics import p_text
from ragbench.types import Judgement

CHANGE_SIGNS = {"regression": "✗", "improvement": "✓"}

SIGNS = {"passed": "✓", "missed": "✗", "unreachable": "⊘", "unscored": "?", "no target": "·"}
"""A sign for each verdict, so that colour is not the only difference."""


def banner(result: Result) -> tuple[str, str]:
    """Return the verdict on a result in a word, and its reasons in a sentence.

    The word is "passed", "failed" (also if a gate was not measured), or "no verdict" if there was
    neither a target to reach nor a baseline to compare with.
    """
    word = "passed" if result.passed else "failed"
    clauses = _clauses(result)
    has_target = any(row.verdict in ("passed", "missed") for row in result.rows)
    if result.passed and not has_target and result.comparison is None:
        word = "no verdict"
        reason = "No target applies to what was measured"
        if result.dataset["name"] == BUILT_IN:
            reason = (
                "The default targets are for test sets of your own; on the built-in one "
                "only those that you name apply"
            )
        clauses.insert(0, reason)
    return word, as_sentence("; ".join(clauses or ["nothing could be measured"]))


def _clauses(result: Result) -> list[str]:
    """Return what speaks for and against a result, each as a clause of a sentence.

    They are about passed questions, targets, the comparison with the baseline, answers that nothing
    checks, the judge, edits and doubts.
    """
    counts = Counter(row.verdict for row in result.rows)
    n_targets = counts["passed"] + counts["missed"]
    clauses = []
    if result.passed_sentence:
        clauses.append(result.passed_sentence)
    if n_targets:
        missed = f", missed: {', '.join(result.missed)}" if result.missed else ""
        clauses.append(f"{counts['passed']} of {n_targets} targets reached{missed}")
    if counts["unreachable"]:
        targets = plural(counts["unreachable"], "target")
        clauses.append(f"{targets} beyond the ceiling of this test set")
    unscored = [row.measure for row in result.rows if row.verdict == "unscored"]
    if unscored:
        clauses.append(f"not measured: {', '.join(unscored)}")
    if result.comparison is not None:
        regressions = result.comparison.regressions
        if regressions:
            clauses.append(f"{plural(len(regressions), 'regression')}: {', '.join(regressions)}")
        if result.comparison.lost:
            clauses.append(result.comparison.lost_sentence)
        if not regressions and not result.comparison.lost:
            smallest_fall_to_notice = result.comparison.noticeable  # a clause
            clauses.append(f"no regression shown; {smallest_fall_to_notice}")
    if result.unchecked_sentence:
        clauses.append(result.unchecked_sentence)
    n_lost = result.counts.get("failed_judgements")
    if n_lost:
        judged = plural(result.counts["judgements"], "answer")
        clauses.append(f"the judge failed on {n_lost} of {judged}")
    if result.edited:
        clauses.append(f"edited by a person after it was made: {', '.join(result.edited)}")
    passages_without_document = attribution_doubt(result.system)  # a clause; "" for (nearly) none
    if passages_without_document:
        clauses.append(passages_without_document)
    return clauses


def shown_measures(
    result: Result, names: Collection[str] = HEADLINE
) -> dict[str, list[MeasureResult]]:
    """Return perspective -> the rows of its table, headline measures first.

    Shown are the measures in `names`, measures with a target, measures of a judge, and measures that the user
    wrote or named. A measure without a score is left out unless it has a target.
    """
    position_of = {name: position for position, name in enumerate(HEADLINE)}

    def position(row: MeasureResult) -> int:
        # Judged@k has the position of nDCG@k; other measures come last
        return position_of.get(headline_name(row), len(HEADLINE))

    rows = sorted(result.rows, key=position)
    named_by_user = result.settings.get("chosen", ())
    shown: dict[str, list[MeasureResult]] = {each.name: [] for each in result.perspectives}
    for row in rows:
        if row.perspective in shown and is_shown(row, names, named_by_user):
            shown[row.perspective].append(row)
    return shown


def brief_measures(result: Result) -> dict[str, list[MeasureResult]]:
    """Return `shown_measures` of a few headline measures, which a printed `Result` shows, too."""
    return shown_measures(result, brief_names(result.settings))


def shown_changes(result: Result, *, every: bool = True) -> list[Change]:
    """Return the rows of the comparison with the baseline; [] without a comparison.

    Regressions come first, then improvements, then changes that show nothing, then heuristics without a
    target, which are only shown. If `every` is False, changes that show nothing are left out unless their
    measures are in the brief table, or rank.
    """
    if result.comparison is None:
        return []
    brief = {row.measure for rows in brief_measures(result).values() for row in rows}
    brief.add(result.comparison.ranking)
    order = [*CHANGE_SIGNS]  # of verdicts: regression, improvement
    changes = [
        change
        for change in result.comparison.changes
        if every or change.measure in brief or change.verdict in order
    ]

    def rank(change: Change) -> int:
        if change.verdict in order:
            return order.index(change.verdict)
        if change.verdict == SHOWN_ONLY:
            return len(order) + 1
        return len(order)

    return sorted(changes, key=rank)


def depth_table(result: Result) -> tuple[list[int], list[tuple[str, list[str]]]]:
    """Return the table of ranking measures by depth k: its depths, and its rows as (heading, texts).

    A row is such as ("nDCG@k", ["0.612", "0.701"]) for the depths [5, 10]. ([], []) if no ranking
    measure was scored.

    All rows rank the same things: documents if nDCG was scored for them, else chunks, else spans.
    """
    values = {}
    for row in result.rows:
        if row.n_scored and is_ranking_measure(row.measure):
            values[row.measure] = row.value
    depths = [
        depth
        for depth in result.settings.get("k", ())
        if any(name.endswith(f"@{depth}") for name in values)
    ]
    if not depths:
        return [], []
    level = ""  # the prefix of measures about documents
    for prefix in ("", "chunk:", "span:"):
        if any(name.startswith(f"{prefix}nDCG@") for name in values):
            level = prefix
            break
    rows = []
    for name, explanation in _AT_DEPTHS.items():
        values_at_depths = [values.get(f"{level}{name}@{depth}") for depth in depths]
        is_measured = any(value is not None for value in values_at_depths)
        if is_measured or name != "Judged":  # the row Judged@k is not shown empty
            texts = [number(value) for value in values_at_depths]
            rows.append((f"{level}{name}@k{explanation}", texts))
    return depths, rows


_AT_DEPTHS = {
    "P": " (precision)",
    "R": " (recall)",
    "F1": "",
    "nDCG": "",
    "Judged": "",
    "Success": " (hit rate)",
}


def figures(result: Result) -> list[tuple[str, str]]:
    """Describe counts, the judge, cost and chunking, each as (word, sentence), such as ("Questions",
    "7 passed, 3 failed"). Perspectives that were not measured are left out.
    """
    rows = [
        ("Questions", _question_counts(result)),
        ("Claims", _claim_counts(result.counts)),
        ("Judge", _judge_sentence(result)),
        ("Cost", _cost_sentence(result) if result.cases else ""),
        ("Chunks", _chunk_sentence(result.facts) if result.facts.get("chunks") else ""),
    ]
    return [(word, sentence) for word, sentence in rows if sentence]


def _question_counts(result: Result) -> str:
    """State how many questions passed, failed and could not be decided; "" if none was evaluated."""
    counts = result.counts
    if not result.cases or not counts:
        return ""
    texts = [f"{counts['passed']} passed", f"{counts['failed']} failed"]
    if counts["undecided"]:
        texts.append(f"{counts['undecided']} not decided")
    return ", ".join(texts)


def _claim_counts(counts: Mapping[str, int]) -> str:
    """State how many claims and numbers of answers are not supported; "" if this was not measured."""
    texts = []
    if "unsupported_claims" in counts:
        texts.append(f"{plural(counts['unsupported_claims'], 'claim')} with a support below 0.5")
        texts.append(f"{plural(counts['fabricated_numbers'], 'number')} in no context")
    if "invented_claims" in counts:
        texts.append(f"{plural(counts['invented_claims'], 'invented claim')} by the judge")
    if counts.get("invented_quotes"):
        quotes = plural(counts["invented_quotes"], "quote")
        texts.append(f"{quotes} that the judge invented, whose claims count as unsupported")
    return ", ".join(texts)


def _judge_sentence(result: Result) -> str:
    """Return a sentence with the judge's name, its audits, and reasons to doubt its verdicts; "" if no
    judge was asked.
    """
    judgements = [judgement for judgement in result.judgements if judgement.samples]
    if not judgements:
        return ""
    judge = str(result.settings.get("judge") or judgements[0].model or "a judge without a name")
    clauses = [judge]
    # the name in the settings, and the names that came with the replies
    names = {judge, *(judgement.model for judgement in judgements)}
    if any(writer_among(result.answers, name) for name in names):
        clauses.append("it also wrote the answers, and models prefer their own")
    # a card records an audit of the judge
    cards = [card for card in result.config.get("judge_cards", ()) if is_card(card)]
    clauses += [card_sentence(card) for card in cards]
    if not cards:
        clauses.append("not audited here: `ragbench audit` tests it")
    for criterion, group in grouped(judgements, lambda each: each.criterion).items():
        clauses += _doubts_on_criterion(criterion, group)
    return "; ".join(clauses)


def _doubts_on_criterion(criterion: str, judgements: Sequence[Judgement]) -> list[str]:
    """Return reasons to doubt a judge's verdicts by a criterion, each as a clause; [] if there are
    none.

    The reasons are that all answers have the same verdict, and that answers have no verdict.
    """
    doubts = []
    values = [judgement.value for judgement in judgements if judgement.value is not None]
    if len(values) > 1 and len(set(values)) == 1:
        doubts.append(
            f"constant: its verdict by {criterion} is {values[0]:.2f} on all {len(values)} "
            "answers, so it distinguishes none of them"
        )
    excluded = [each.query_id for each in judgements if each.state == "excluded"]
    if excluded:
        names = ", ".join(excluded[:5])
        if len(excluded) > 5:
            names += ", ..."
        reason = "its verdict has no value"
        if criterion == "correctness":  # its only level without a value is reference_wrong
            reason = "the reference is wrong or incomplete"
        doubts.append(
            f"{plural(len(excluded), 'answer')} without a verdict by {criterion}, as {reason}: "
            f"{names}"
        )
    return doubts


def _cost_sentence(result: Result) -> str:
    """State the cost of the requests if no reply were cached.

    The cost is given in total, by part of the evaluation (such as answers, judge) and per question.
    If it is unknown, the sentence states why.
    """
    costs = result.costs
    if not costs:
        return "0 dollars: no language model was asked"
    cost_of_part = {cost.part: dollars(total_cost(costs, cost.part)) for cost in costs}
    by_part = ", ".join(f"{part} {usd}" for part, usd in cost_of_part.items())
    total = total_cost(costs)
    if total is not None:
        per_question = dollars(cost_without_samples(costs), len(result.cases))
        return f"{dollars(total)} dollars where nothing is cached ({by_part}), {per_question} per question"
    reasons = []
    for cost in costs:
        if cost.usd is None:
            has_tokens = bool(cost.input_tokens or cost.output_tokens)
            lacking = "price for" if has_tokens else "token counts from"
            reasons.append(f"no {lacking} {cost.model}")
    # each reason once
    return f"unknown: {', '.join(dict.fromkeys(reasons))} ({by_part})"


def _chunk_sentence(chunks: Mapping[str, float]) -> str:
    """State the number and sizes of chunks, as far as their statistics are known."""
    count = f"{chunks['chunks']:,.0f}"
    if {"tokens_mean", "tokens_median", "tokens_p95"} <= chunks.keys():
        sizes = f"median {chunks['tokens_median']:.0f}, 95 % up to {chunks['tokens_p95']:.0f}"
        count += f" of {chunks['tokens_mean']:.0f} tokens on average ({sizes})"
    texts = [count]
    names = {
        "overlap_ratio": "overlap",
        "coherence": "coherence",
        "boundary_cuts": "borders inside a sentence",
    }
    for name, words in names.items():
        if name in chunks:
            texts.append(f"{words} {chunks[name]:.3f}")
    return ", ".join(texts)


COST_HEADS = "part,model,requests,cached,tokens in,tokens out,dollars,dollars per question".split(
    ","
)


def cost_rows(costs: Sequence[Cost], n_questions: int) -> list[tuple[str, ...]]:
    """Return the table of costs as texts; its headings are `COST_HEADS`.

    Each row shows the costs of a model in a part of the evaluation: requests, cached replies,
    tokens ("–" if unknown), dollars in total and per question, to which safety samples do not count.
    Several rows are followed by their sum.
    """
    rows = []
    for cost in costs:
        tokens = ["–", "–"]
        if cost.input_tokens or cost.output_tokens:
            tokens = [f"{cost.input_tokens:,}", f"{cost.output_tokens:,}"]
        requests = (f"{cost.requests:,}", f"{cost.cached:,}", *tokens)
        per_question = "–" if cost.part == SAFETY else dollars(cost.usd, n_questions)
        prices = (dollars(cost.usd), per_question)
        rows.append((cost.part, cost.model, *requests, *prices))
    if len(costs) > 1:
        per_question = dollars(cost_without_samples(costs), n_questions)
        rows.append(("all", "", "", "", "", "", dollars(total_cost(costs)), per_question))
    return rows


def doubtful_claims(result: Result) -> list[tuple[CaseResult, str, str]]:
    """Return the claims and numbers in answers that no context supports, as (question, finder, text).

    The finder is "judge", "wording" (a claim whose words are in no context) or "number" (a number that
    is in no context).
    """
    field_of_finder = {
        "judge": "invented_claims",
        "wording": "unsupported_claims",
        "number": "fabricated_numbers",
    }
    claims = []
    for case in result.cases:
        for finder, field in field_of_finder.items():
            claims += [(case, finder, text) for text in getattr(case, field)]
    return claims


def failed_cases(result: Result) -> list[CaseResult]:
    """Return the cases that did not pass, most reasons first, then in the order of the test set."""
    failed = [case for case in result.cases if case.passed is False]
    return sorted(failed, key=lambda case: -len(case.reasons))


def number(value: float | None) -> str:
    """Write a number for readers: three decimals, fewer for large ones, a dash for none.

    >>> number(0.61249), number(3.0), number(1234.5), number(None)
    ('0.612', '3.000', '1234', '–')
    """
    if value is None:
        return "–"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"


def dollars(usd: float | None, per: int = 1) -> str:
    """Return an amount for readers, divided by `per`: four decimals, or two significant digits if
    it is smaller.

    >>> dollars(1.5), dollars(0.002, 400), dollars(0.0), dollars(None)
    ('1.5000', '0.0000050', '0.0000', 'unknown')
    """
    if usd is None:
        return "unknown"
    amount = usd / max(per, 1)
    digits = 4 if amount == 0 else max(4, 1 - math.floor(math.log10(amount)))
    return f"{amount:.{digits}f}"


def aim(target: float | None, lower_is_better: bool) -> str:
    """Return a target with its direction.

    >>> aim(0.6, False), aim(3.0, True), aim(None, False)
    ('≥ 0.6', '≤ 3', '–')
    """
    if target is None:
        return "–"
    sign = "≤" if lower_is_better else "≥"
    return f"{sign} {target:g}"


def interval(low: float | None, high: float | None) -> str:
    """Return an interval; "" if a bound is None.

    >>> interval(0.1, 0.25)
    '[0.100, 0.250]'
    """
    return "" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def if_unreadable(bounds: tuple[float, float] | None) -> str:
    """Return the mean of a judged measure if all of its missing verdicts were the lowest, or the
    highest value; "" if none is missing.

    >>> if_unreadable((0.5, 0.75)), if_unreadable(None)
    ('0.500 to 0.750 with the unreadable verdicts', '')
    """
    if bounds is None:
        return ""
    return f"{number(bounds[0])} to {number(bounds[1])} with the unreadable verdicts"


def sureness(row: MeasureResult) -> str:
    """State that the verdict could be another with other questions of the kind; "" if it is sure, or
    that is not known.

    >>> sureness(MeasureResult("RR", "retrieval", 0.7, 0.5, 0.8, 9, 9, target=0.6, verdict="passed", sure=False))
    'not sure: the target lies in the interval'
    """
    if row.sure is None or row.verdict not in ("passed", "missed"):
        return ""
    return "" if row.sure else "not sure: the target lies in the interval"


def flip_counts(flips: PassFail) -> str:
    """Return how many cases newly fail and how many are fixed, with the p-value of their
    difference.
    """
    p = "" if flips.p_value is None else f", McNemar p {p_text(flips.p_value, '= ')} (Holm)"
    return f"{len(flips.newly_failing)} newly failing, {len(flips.fixed)} fixed of {flips.n}{p}"


def signed(difference: float | None) -> str:
    """Return a difference with its sign.

    >>> signed(0.25), signed(-0.25), signed(0.0)
    ('+0.250', '-0.250', '0.000')
    """
    is_positive = difference is not None and difference > 0
    return f"+{number(difference)}" if is_positive else number(difference)


def at_a_time(concurrency: int | None) -> str:
    """Return how many questions were asked at a time while latency was measured.

    >>> at_a_time(1), at_a_time(8), at_a_time(None)
    ('one at a time', '8 at a time', 'as recorded')
    """
    if concurrency is None:
        return "as recorded"
    return "one at a time" if concurrency == 1 else f"{concurrency} at a time"


def shared_variables(result: Result) -> dict[str, Any]:
    """Return what every template of a report shows: name of a variable -> its value."""
    word, sentence = banner(result)
    return {
        "result": result,
        "word": word,
        "sentence": sentence,
        "figures": figures(result),
        "measures": shown_measures(result),
        "brief": brief_measures(result),
        "changes": shown_changes(result),
        "main_changes": shown_changes(result, every=False),
        "depths": depth_table(result),
        "failed": failed_cases(result),
        "claims": doubtful_claims(result),
        "cost_rows": cost_rows(result.costs, len(result.cases)),
        "next_step": Results([result]).conclude().next_step if len(result.scores) else "",
    }


def templates(**options: Any) -> Environment:
    """Return the jinja2 environment that loads the templates in this folder, with the filters and
    constants that they use. `options` are further arguments of the environment.
    """
    environment = Environment(  # nosec B701: pages pass autoescape=True; the others are Markdown
        loader=PackageLoader("ragbench.report.page", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )
    shared = (
        aim,
        at_a_time,
        flip_counts,
        if_unreadable,
        interval,
        number,
        p_text,
        plural,
        printable,
        signed,
        sureness,
    )
    environment.filters |= {function.__name__: function for function in shared}
    environment.globals |= {"signs": SIGNS, "change_signs": CHANGE_SIGNS, "cost_heads": COST_HEADS}
    return environment
