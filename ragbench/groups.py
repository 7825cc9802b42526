"""Items by a key, and an even choice from all groups."""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return key -> the items with this key, in their order.

    >>> grouped(["cat", "cow", "dog"], lambda word: word[0])
    {'c': ['cat', 'cow'], 'd': ['dog']}
    """
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def evenly(
    items: Sequence[Item],
    size: int,
    id_of: Callable[[Item], str],
    group_of: Callable[[Item], Hashable],
) -> list[Item]:
    """Return at most `size` items, as evenly from all groups as possible, in the order of `items`.

    In each round one more item of each group is chosen, until there are `size` items. The SHA-256 of
    ids and groups decides which items and groups come first, so the choice is as good as random, but
    always the same.
    """
    members_of = grouped(range(len(items)), lambda i: group_of(items[i]))
    choices: list[tuple[int, str, int]] = []  # (round, hash of the group, number of the item)
    for group, members in members_of.items():
        members.sort(key=lambda i: _sha256(id_of(items[i])))
        for round_number, i in enumerate(members):
            choices.append((round_number, _sha256(str(group)), i))
    first_choices = sorted(choices)[:size]
    chosen = sorted(i for _, _, i in first_choices)
    return [items[i] for i in chosen]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
