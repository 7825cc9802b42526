"""The sentences of a report, the same in Markdown, HTML and on the console. Every sentence is
computed from it.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ragbench.errors import plural, printable
from ragbench.evaluation import Result, Results
from ragbench.evaluation.perspectives import not_attributable
from ragbench.evaluation.records import (
    BUILT_IN,
    CaseResult,
    Change,
    Cost,
    MeasureResult,
    PassFail,
    total_cost,
)
from ragbench.judges.card import card_sentence, is_card
from ragbench.judges.criteria import writer_among
from ragbench.registry import BRIEF, HEADLINE, find_measure, is_ranking_measure
from ragbench.statistics import p_text
from ragbench.types import grouped

CHANGE_SIGNS = {"regression": "✗", "improvement": "✓"}

SIGNS = {"passed": "✓", "missed": "✗", "unreachable": "⊘", "unscored": "?", "no target": "·"}
"""A sign for each verdict, so that colour is not the only difference."""


def banner(result: Result) -> tuple[str, str]:
    """Return the verdict in a word, and the sentence behind it.

    "passed", "failed" (also where a gate was not measured), or "no verdict" where there was neither
    a target to reach nor a baseline to compare with.
    """
    counts = Counter(row.verdict for row in result.rows)
    unscored = [row.measure for row in result.rows if row.verdict == "unscored"]
    beyond = counts["unreachable"]
    clauses = [result.passed_sentence] if result.passed_sentence else []
    if aimed := counts["passed"] + counts["missed"]:
        missed = f", missed: {', '.join(result.missed)}" if result.missed else ""
        clauses.append(f"{counts['passed']} of {aimed} targets reached{missed}")
    if beyond:
        clauses.append(f"{plural(beyond, 'target')} beyond the ceiling of this test set")
    if unscored:
        clauses.append(f"not measured: {', '.join(unscored)}")
    if result.comparison is not None:
        worse = result.comparison.regressions
        listed = f"{plural(len(worse), 'regression')}: {', '.join(worse)}"
        clauses.append(listed if worse else f"no regression shown; {result.comparison.noticeable}")
    if failed := result.counts.get("failed_judgements"):
        judged = plural(result.counts["judgements"], "answer")
        clauses.append(f"the judge failed on {failed} of {judged}")
    if result.edited:
        clauses.append(f"edited by a person after it was made: {', '.join(result.edited)}")
    clauses += filter(None, [not_attributable(result.system)])
    word = "passed" if result.passed else "failed"
    if result.passed and not aimed and result.comparison is None:
        word, reason = "no verdict", "No target applies to what was measured"
        if result.dataset["name"] == BUILT_IN:
            reason = (
                "The default targets are for test sets of your own; on the built-in one "
                "only those that you name apply"
            )
        clauses.insert(0, reason)
    sentence = "; ".join(clauses or ["nothing could be measured"])
    return word, f"{sentence[:1].upper()}{sentence[1:]}."


def shown_measures(
    result: Result, names: Collection[str] = HEADLINE
) -> dict[str, list[MeasureResult]]:
    """Return perspective -> the rows of the table: measures of these names and those with a target,
    those of a judge and of the user.

    A measure that nothing was scored by is left out unless a target wants it. Judged@k, which a
    result has where it is below 1, is next to nDCG@k.
    """
    places = {name: i for i, name in enumerate(HEADLINE)}
    kept = [
        row
        for row in sorted(result.rows, key=lambda row: places.get(_next_to(row), len(places)))
        if row.target is not None
        or (row.n_scored and (_next_to(row) in names or _always_shown(row)))
    ]
    return {
        perspective.name: [row for row in kept if row.perspective == perspective.name]
        for perspective in result.perspectives
    }


def brief_measures(result: Result) -> dict[str, list[MeasureResult]]:
    """Return `shown_measures` of a few headline measures.

    Where rankings were not measured at the depth of 5, the greatest depth is used.
    """
    ks = result.settings.get("k") or [5]
    depth = 5 if 5 in ks else max(ks)
    return shown_measures(result, {name.replace("@5", f"@{depth}") for name in BRIEF})


def shown_changes(result: Result, *, every: bool = True) -> list[Change]:
    """Return the rows of the comparison: regressions first, then improvements, then the others.

    Without `every`, the others are only those of the brief table.
    """
    changes = result.comparison.changes if result.comparison is not None else ()
    brief = {row.measure for rows in brief_measures(result).values() for row in rows}
    order = {verdict: rank for rank, verdict in enumerate(CHANGE_SIGNS)}
    kept = [
        change
        for change in changes
        if every or change.measure in brief or change.verdict in CHANGE_SIGNS
    ]
    return sorted(kept, key=lambda change: order.get(change.verdict, len(order)))


def _next_to(row: MeasureResult) -> str:
    return row.measure.replace("Judged@", "nDCG@")


def _always_shown(row: MeasureResult) -> bool:
    measure = find_measure(row.measure)
    return measure is not None and (
        measure.perspective == "own"
        or (measure.judged and measure.perspective == "judge")
        or measure.name.startswith("robust:")
    )


def depth_table(result: Result) -> tuple[list[int], list[tuple[str, list[str]]]]:
    """Return ranking measures by depth: the depths, and a row of values for each measure; nothing
    where none was measured.
    """
    values = {
        row.measure: row.value
        for row in result.rows
        if row.n_scored and is_ranking_measure(row.measure)
    }
    ks = [k for k in result.settings.get("k", ()) if any(name.endswith(f"@{k}") for name in values)]
    levels = {name.partition("nDCG@")[0] for name in values if "nDCG@" in name}
    level = next((level for level in ("", "chunk:", "span:") if level in levels), "")
    rows = []
    for name, more in _AT_DEPTHS.items() if ks else ():
        at_depths = [values.get(f"{level}{name}@{k}") for k in ks]
        if name != "Judged" or any(value is not None for value in at_depths):
            rows.append((f"{level}{name}@k{more}", [*map(number, at_depths)]))
    return ks, rows


_AT_DEPTHS = {
    "P": " (precision)",
    "R": " (recall)",
    "F1": "",
    "nDCG": "",
    "Judged": "",
    "Success": " (hit rate)",
}


def figures(result: Result) -> list[tuple[str, str]]:
    """Describe counts, cost and chunking, each as a word and a sentence; what was not measured is
    left out.
    """
    counts, rows = result.counts, []
    if result.cases and counts:
        parts = [f"{counts['passed']} passed", f"{counts['failed']} failed"]
        parts += [f"{counts['undecided']} not decided"] if counts["undecided"] else []
        rows.append(("Questions", ", ".join(parts)))
    claims = []
    if "unsupported_claims" in counts:
        claims.append(f"{plural(counts['unsupported_claims'], 'claim')} with a support below 0.5")
        claims.append(f"{plural(counts['fabricated_numbers'], 'number')} in no context")
    if "invented_claims" in counts:
        claims.append(f"{plural(counts['invented_claims'], 'invented claim')} by the judge")
    if counts.get("invented_quotes"):
        quotes = plural(counts["invented_quotes"], "quote")
        claims.append(f"{quotes} that the judge invented, whose claims count as unsupported")
    if claims:
        rows.append(("Claims", ", ".join(claims)))
    if judge := _judge_sentence(result):
        rows.append(("Judge", judge))
    if result.cases:
        rows.append(("Cost", _cost_sentence(result)))
    if result.facts.get("chunks"):
        rows.append(("Chunks", _chunk_sentence(result.facts)))
    return rows


def _judge_sentence(result: Result) -> str:
    """State what makes the judge's verdicts doubtful; "" where no judge was asked."""
    requested = [judgement for judgement in result.judgements if judgement.samples]
    if not requested:
        return ""
    judge = str(result.settings.get("judge") or requested[0].model or "a judge without a name")
    parts = [judge]
    if writer_among(result.answers, judge):
        parts.append("it also wrote the answers, and models prefer their own")
    cards = [card for card in result.config.get("judge_cards", ()) if is_card(card)]
    parts += [card_sentence(card) for card in cards]
    if not cards:
        parts.append("not audited here: `ragbench audit` tests it")
    for criterion, judgements in grouped(requested, lambda each: each.criterion).items():
        values = [each.value for each in judgements if each.value is not None]
        if len(values) > 1 and len(set(values)) == 1:
            parts.append(
                f"constant: its verdict by {criterion} is {values[0]:.2f} on all {len(values)} "
                "answers, so it distinguishes none of them"
            )
        excluded = [each.query_id for each in judgements if each.state == "excluded"]
        if excluded:
            shown = ", ".join(excluded[:5]) + (", ..." if len(excluded) > 5 else "")
            reason = "the reference is wrong or incomplete"
            if criterion != "correctness":
                reason = "its verdict has no value"
            parts.append(
                f"{plural(len(excluded), 'answer')} without a verdict by {criterion}, as {reason}: "
                f"{shown}"
            )
    return "; ".join(parts)


def _cost_sentence(result: Result) -> str:
    if not result.costs:
        return "0 dollars: no language model was asked"
    total = total_cost(result.costs)
    parts = {cost.part: dollars(total_cost(result.costs, cost.part)) for cost in result.costs}
    listed = ", ".join(f"{part} {usd}" for part, usd in parts.items())
    if total is None:
        why = dict.fromkeys(
            f"no price for {cost.model}"
            if cost.input_tokens or cost.output_tokens
            else f"no token counts from {cost.model}"
            for cost in result.costs
            if cost.usd is None
        )
        return f"unknown: {', '.join(why)} ({listed})"
    return (
        f"{dollars(total)} dollars where nothing is cached "
        f"({listed}), {dollars(total, len(result.cases))} per question"
    )


def _chunk_sentence(chunks: Mapping[str, float]) -> str:
    texts = [f"{chunks['chunks']:,.0f}"]
    if "tokens_mean" in chunks:
        sizes = f"median {chunks['tokens_median']:.0f}, 95 % up to {chunks['tokens_p95']:.0f}"
        texts = [f"{texts[0]} of {chunks['tokens_mean']:.0f} tokens on average ({sizes})"]
    names = {"overlap_ratio": "overlap", "coherence": "coherence"}
    names |= {"boundary_cuts": "borders inside a sentence"}
    texts += [f"{word} {chunks[name]:.3f}" for name, word in names.items() if name in chunks]
    return ", ".join(texts)


COST_HEADS = "part,model,requests,cached,tokens in,tokens out,dollars,dollars per question".split(
    ","
)


def cost_rows(costs: Sequence[Cost], questions: int) -> list[tuple[str, ...]]:
    """Return a row for each part and model, and their sum where there are several; the columns are
    `COST_HEADS`.
    """
    rows = []
    for cost in costs:
        tokens = (cost.input_tokens, cost.output_tokens)
        counts = (f"{count:,}" for count in tokens) if any(tokens) else ("–", "–")
        requests = (f"{cost.requests:,}", f"{cost.cached:,}", *counts)
        rows.append(
            (cost.part, cost.model, *requests, dollars(cost.usd), dollars(cost.usd, questions))
        )
    if len(costs) > 1:
        total = total_cost(costs)
        rows.append(("all", "", "", "", "", "", dollars(total), dollars(total, questions)))
    return rows


def doubtful_claims(result: Result) -> list[tuple[CaseResult, str, str]]:
    """Return the claims and numbers of answers that no context supports, each with its question and
    who found it.
    """
    kinds = {"invented_claims": "judge", "unsupported_claims": "wording"}
    kinds |= {"fabricated_numbers": "number"}
    return [
        (case, found_by, text)
        for case in result.cases
        for name, found_by in kinds.items()
        for text in getattr(case, name)
    ]


def failed_cases(result: Result) -> list[CaseResult]:
    """Return the cases that did not pass, most reasons first, then in the order of the test set."""
    return sorted(
        (case for case in result.cases if case.passed is False), key=lambda case: -len(case.reasons)
    )


def number(value: float | None) -> str:
    """Write a number for readers: three decimals, fewer for large ones, a dash for none.

    >>> number(0.61249), number(3.0), number(1234.5), number(None)
    ('0.612', '3.000', '1234', '–')
    """
    if value is None:
        return "–"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"


def dollars(usd: float | None, per: int = 1) -> str:
    """Return an amount for readers, divided by `per`: four decimals, or two significant digits
    where it is smaller.

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
    return "–" if target is None else f"{'≤' if lower_is_better else '≥'} {target:g}"


def interval(low: float | None, high: float | None) -> str:
    """Return an interval, "" where there is none.

    >>> interval(0.1, 0.25)
    '[0.100, 0.250]'
    """
    return "" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def if_unreadable(bounds: tuple[float, float] | None) -> str:
    """Return the mean of a judged measure if all of its missing verdicts were the lowest, or the
    highest value; "" where none is missing.

    >>> if_unreadable((0.5, 0.75)), if_unreadable(None)
    ('0.500 to 0.750 with the unreadable verdicts', '')
    """
    if bounds is None:
        return ""
    return f"{number(bounds[0])} to {number(bounds[1])} with the unreadable verdicts"


def sureness(row: MeasureResult) -> str:
    """State that the verdict could be another with other questions of the kind; "" where that is
    not known.

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
    return f"{'+' if difference and difference > 0 else ''}{number(difference)}"


def at_a_time(concurrency: int | None) -> str:
    """Return how many questions were asked at a time while latency was measured.

    >>> at_a_time(1), at_a_time(8), at_a_time(None)
    ('one at a time', '8 at a time', 'as recorded')
    """
    if concurrency is None:
        return "as recorded"
    return "one at a time" if concurrency == 1 else f"{concurrency} at a time"


def shared_texts(result: Result) -> dict[str, Any]:
    """Return what every template shows of a result, by the names in the templates."""
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
    """Return the environment of the templates here, with what their texts share; options are those
    of jinja2.
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
