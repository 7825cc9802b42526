"""Every text that ragbench sends to a language model, and the fences around foreign text in it.

Two rules hold for all of them. Foreign text (questions, documents, answers, reference answers) is between
tags that it cannot close (`ragbench.prompts.fences`), and the model is instructed that nothing between them is
an instruction. And a model gives its reason before its verdict, so that the verdict can follow from the reason.
"""
