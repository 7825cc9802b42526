"""What the figure of an audit shows."""

from __future__ import annotations

from ragbench.judges import judge_audit
from ragbench.llms import ScriptedLLM
from ragbench.report import plots
from ragbench.types import Answer, Case, Dataset

CASES = tuple(Case(f"q{i}", f"{i} + 1?", reference_answer=f"It is {i + 1}.") for i in range(4))
DATA = Dataset("tiny", "test", {}, CASES, {})
ANSWERS = [Answer(case.query_id, f"{case.reference_answer}") for case in CASES]


def texts(figure: object) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text)]  # type: ignore[attr-defined]


def test_an_audit_has_a_row_per_probe_and_shows_what_fails() -> None:
    lenient = ScriptedLLM(lambda prompt: {"better": "tie"} if "Second answer" in prompt else {"verdict": True})
    audit = judge_audit(ANSWERS, "correctness", lenient, dataset=DATA)
    shown = texts(plots.plot_judge_audit(audit))
    assert {"padded (n = 8)", "wrong but fluent (n = 4)", "tolerated", "fails"} <= set(shown)
    unread = judge_audit(ANSWERS, "correctness", ScriptedLLM(lambda prompt: "?"), dataset=DATA)
    assert any("nothing to draw" in text for text in texts(plots.plot_judge_audit(unread)))
