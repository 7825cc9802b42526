from .agreement import sheet_agreement
from .draws import PROXIES, draw_items, open_items, trust
from .items import LABELLED, LabelItem
from .questions import QuestionWidget
from .relevance import judge_relevance
from .sheet import (
    label_sheet,
    load_labels,
    read_sheet,
    save_label,
)
from .widget import LabelWidget

__all__ = [
    "LABELLED",
    "PROXIES",
    "LabelItem",
    "LabelWidget",
    "QuestionWidget",
    "draw_items",
    "judge_relevance",
    "label_sheet",
    "load_labels",
    "open_items",
    "read_sheet",
    "save_label",
    "sheet_agreement",
    "trust",
]
