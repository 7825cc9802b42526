"""Every text that ragbench sends to a language model, and how foreign text stands in it.

Two rules hold for all of them. What we did not write (questions, documents, answers, reference answers) stands
between tags that it cannot close (`ragbench.prompts.fences`), and the model is told that nothing between them is an
instruction. And a model gives its reason before its verdict, so that the verdict can follow from the reason.
"""
