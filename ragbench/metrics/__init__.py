"""Measures as pure functions: plain records in, numbers out; nothing here reads a file or loads a
model, but for `safety.injection_score`, which embeds sentences."""
