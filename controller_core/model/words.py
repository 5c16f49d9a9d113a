"""How many of what, in words: one place for lists, pages and reports."""


def counted(number: int, noun: str) -> str:
    """`3 clusters`, `1 cluster`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
