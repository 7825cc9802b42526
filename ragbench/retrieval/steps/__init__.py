"""The steps of a search, in the order in which they run: `Pipeline` calls one after the other.

Each is a function on plain records (chunks, questions, rankings), in a separate file, and has one
parameter of the pipeline; `ragbench.retrieval.steps.values` lists and checks their values.
"""
