"""A `Conclusion` as Markdown for notebooks: the order of the decision, its evidence, and the next
step.
"""

from __future__ import annotations

from ragbench.evaluation.decision import Conclusion
from ragbench.report.failure_tables import plain


def conclusion_markdown(conclusion: Conclusion) -> str:
    """Write a conclusion as Markdown: the decision as a title, then a list that ends with the next
    step. Labels are escaped.
    """
    evidence = "\n".join(f"- {plain(sentence)}" for sentence in conclusion.evidence)
    title = f"# {plain(conclusion.headline)}"
    return f"{title}\n\n{evidence}\n- **Next:** {plain(conclusion.next_step)}.\n"
