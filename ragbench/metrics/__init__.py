"""Measures as pure functions: plain records in, numbers out; nothing here reads a file of a user.

Two embed the texts that they score, with a model that comes along: `groundedness.claim_support` and
`safety.injection_score`. What each measure means, its bounds and direction are in `ragbench.registry`.
"""
