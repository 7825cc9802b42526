"""Labels by people: the choice of answers, the sheet they are written on, and the widget that fills
it in.

`draw_items` draws questions, `label_sheet` writes their answers to a CSV file, `LabelWidget`, the
terminal (`ragbench label`) or a spreadsheet fills in the verdicts, and `trust` estimates the
difference from them; `load_labels` reads them back for `judge_agreement`. The labeller sees neither
the configuration of an answer, nor judgements or labels of others.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
