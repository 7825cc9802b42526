"""Labels by people: the choice of answers, the sheet they are written on, and the widget that fills
it in.

`extend_sheet` draws the next batch of questions and adds their answers to a CSV file, `LabelWidget`,
`ragbench label` or a spreadsheet fills in the verdicts, and `trust` tells from them which of two
configurations is better. The labeller sees neither the configuration of an answer, nor judgements
or labels of others.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
