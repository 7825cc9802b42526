from .items import LABELLED, LabelItem, choose_items
from .questions import QuestionWidget
from .sheet import (
    label_sheet,
    load_labels,
    read_sheet,
    save_label,
)
from .widget import LabelWidget

__all__ = [
    "LABELLED",
    "LabelItem",
    "LabelWidget",
    "QuestionWidget",
    "choose_items",
    "label_sheet",
    "load_labels",
    "read_sheet",
    "save_label",
]
