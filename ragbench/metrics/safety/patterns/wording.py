"""Alternatives of a pattern, written over several lines."""

from __future__ import annotations


def any_of(*parts: str) -> str:
    return "(?:" + "|".join(" ".join(part.split()).replace(" | ", "|") for part in parts) + ")"
