from .items import LABELLED, LabelItem, choose_items, chunks_of
from .questions import QuestionWidget
from .sheet import (
    extend_sheet,
    label_sheet,
    load_labels,
    read_sheet,
    save_label,
)
from .trust import Trust, trust
from .widget import LabelWidget

__all__ = [
    "LABELLED",
    "LabelItem",
    "LabelWidget",
    "QuestionWidget",
    "Trust",
    "choose_items",
    "chunks_of",
    "extend_sheet",
    "label_sheet",
    "load_labels",
    "read_sheet",
    "save_label",
    "trust",
]
