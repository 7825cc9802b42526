from .draws import PROXIES, draw_items, open_items, trust
from .items import LABELLED, LabelItem
from .judge_agreement import sheet_agreement
from .pair import label_findings, pair_to_label
from .question_form import QuestionWidget
from .relevance import judge_relevance
from .sheet import (
    label_sheet,
    load_labels,
    read_sheet,
    save_label,
)
from .tuning import MIN_LABELS, Tuning, tune_criterion
from .widget import LabelWidget

__all__ = [
    "LABELLED",
    "MIN_LABELS",
    "PROXIES",
    "LabelItem",
    "LabelWidget",
    "QuestionWidget",
    "Tuning",
    "draw_items",
    "judge_relevance",
    "label_findings",
    "label_sheet",
    "load_labels",
    "open_items",
    "pair_to_label",
    "read_sheet",
    "save_label",
    "sheet_agreement",
    "trust",
    "tune_criterion",
]
