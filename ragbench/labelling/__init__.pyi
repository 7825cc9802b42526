from .items import LABELLED, LabelItem, choose_items
from .questions import QuestionWidget
from .sheet import (
    calibrate_sheet,
    label_sheet,
    load_labels,
    progress_table,
    read_sheet,
    save_label,
    write_score_sheet,
)
from .widget import LabelWidget

__all__ = [
    "LABELLED",
    "LabelItem",
    "LabelWidget",
    "QuestionWidget",
    "calibrate_sheet",
    "choose_items",
    "label_sheet",
    "load_labels",
    "progress_table",
    "read_sheet",
    "save_label",
    "write_score_sheet",
]
