"""Errors that name the right call, for names and calls that do not exist, in one sentence.

`similar_names` finds the name that is meant, `calls` explains arguments that do not fit a function,
`attributes` explains an attribute that a record or a class does not have, `values` a wrong use of a value
that a record has. `expected_options` are the words for options that several functions share.
"""
