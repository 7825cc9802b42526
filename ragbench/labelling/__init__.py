"""Labels by people: the choice of answers, the sheet they are written on, and the widget that fills it in.

`choose_items` picks answers, `label_sheet` writes them to a CSV file, `LabelWidget` or a spreadsheet fills in the
verdicts, and `load_labels` reads them back for `judge_agreement` and `calibrate`. The labeller sees neither
the configuration of an answer, nor judgements or labels of others.
"""

from __future__ import annotations

from ragbench.labelling.items import LABELLED, LabelItem, choose_items
from ragbench.labelling.score_sheet import calibrate_sheet, write_score_sheet
from ragbench.labelling.sheet import label_sheet, load_labels, progress_table, read_sheet, save_label
from ragbench.labelling.widget import LabelWidget

__all__ = [
    "LABELLED",
    "LabelItem",
    "LabelWidget",
    "calibrate_sheet",
    "choose_items",
    "label_sheet",
    "load_labels",
    "progress_table",
    "read_sheet",
    "save_label",
    "write_score_sheet",
]
