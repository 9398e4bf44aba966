"""Each headline's numbers, bound to what is recomputed from the raw files.

A binding is the form of a sentence, with `<n>` for each number, and a function that gives the value of each from the
recording. A sentence of no known form, or of a form with a number that nobody recomputes, is a complaint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.recomputed.truth import Truth

#: Numbers that sentences spell out.
WORDS: Final = {
    word: value
    for value, word in enumerate(
        ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
}
_SPELLED: Final = "|".join(WORDS)
_NUMBER: Final = rf"(-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|(?:{_SPELLED})(?![\w-]))"
_KINDS: Final = {
    "n": _NUMBER,
    "op": "(INSERT|SELECT)",
    "time": r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)",
    "text": "(.+?)",
}
_PLACE: Final = re.compile(r"<(n|op|time|text)>")

Expected = Sequence[float]


@dataclass(frozen=True)
class Said:
    """What a sentence says at the places of its form: its numbers as printed, and its words."""

    sentence: str
    numbers: tuple[str, ...]
    words: tuple[str, ...]

    def value(self, place: int) -> float:
        """The number at a place."""
        return read_number(self.numbers[place])


Recompute = Callable[[Truth, Said], Expected]


@dataclass(frozen=True)
class Binding:
    """A form of sentences, and what gives its numbers."""

    page: str
    form: str
    recompute: Recompute

    def match(self, sentence: str) -> Said | None:
        """The numbers and words of a sentence of this form; None: it has another form."""
        parts = _PLACE.split(self.form)
        pattern = "".join(re.escape(part) if place % 2 == 0 else _KINDS[part] for place, part in enumerate(parts))
        found = re.fullmatch(pattern, sentence)
        if found is None:
            return None
        kinds = parts[1::2]
        numbers = tuple(text for kind, text in zip(kinds, found.groups(), strict=True) if kind == "n")
        return Said(sentence, numbers, tuple(t for k, t in zip(kinds, found.groups(), strict=True) if k != "n"))


BINDINGS: Final = list[Binding]()


def binds(page: str, form: str) -> Callable[[Recompute], Recompute]:
    """Bind a form of sentences of a page to the function below."""
    literal = _PLACE.sub("", form)
    if re.search(r"\d", literal):
        raise ValueError(f"a number of {form!r} is not recomputed")

    def bind(recompute: Recompute) -> Recompute:
        BINDINGS.append(Binding(page, form, recompute))
        return recompute

    return bind


def read_number(text: str) -> float:
    """The value of a printed number: `1,477` is 1477, `eight` is 8."""
    return float(WORDS[text]) if text in WORDS else float(text.replace(",", ""))


def agrees(text: str, expected: float) -> bool:
    """Whether a printed number is the expected one, but for the rounding to its last printed digit.

    >>> agrees("7.6", 7.631), agrees("7.6", 7.69), agrees("1,477", 1476.9), agrees("eight", 8)
    (True, False, True, True)
    """
    if text in WORDS:
        return expected == WORDS[text]
    mantissa, _, exponent = text.replace(",", "").partition("e")
    digits = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - digits)
    return abs(read_number(text) - expected) <= unit * 0.5 * (1 + 1e-6) + 1e-12


def complain(page: str, sentence: str, truth: Truth) -> list[str]:
    """What is wrong with a sentence of a page; empty: each of its numbers is what the raw files give."""
    forms = [(one, said) for one in BINDINGS if one.page == page and (said := one.match(sentence))]
    if len(forms) != 1:
        what = "nobody recomputed this sentence" if not forms else f"{len(forms)} forms fit this sentence"
        return [f"{page}: {what}: {sentence}"]
    ((binding, said),) = forms
    try:
        expected = binding.recompute(truth, said)
    except (AssertionError, LookupError) as error:
        return [f"{page}: {error}: {sentence}"]
    if len(expected) != len(said.numbers):
        return [f"{page}: {len(said.numbers)} numbers, of which {len(expected)} were recomputed: {sentence}"]
    return [
        f"{page}: {text} is {value:.6g} by the raw files: {sentence}"
        for text, value in zip(said.numbers, expected, strict=True)
        if not agrees(text, value)
    ]


# Servers


@binds(
    "server",
    "<n> records of <n> server logs, from <time> to <time> UTC, report <n> statements sent by clients (<n> s in total) "
    "and <n> statements sent by other nodes (<n> s in total).",
)
def count_statements(truth: Truth, said: Said) -> Expected:
    """All records and statements of the logs."""
    sent, asked = truth.recording.executions
    times = [time for log in truth.logs for time, *_ in log.records]
    assert said.words == (min(times)[:19], max(times)[:19]), f"the records are from {min(times)} to {max(times)}"
    seconds = [float(one["total_us"].sum()) / 1e6 for one in (sent, asked)]
    return [len(times), len(truth.logs), len(sent), seconds[0], len(asked), seconds[1]]


@binds("server", "The largest total time, <n> %, is that of <text> (<n> executions, mean <n> ms).")
def name_largest_total(truth: Truth, said: Said) -> Expected:
    """The statement with the largest total time among those of clients."""
    sent, _ = truth.recording.executions
    texts = sent["text"].str.replace(r"'[^']*'|\d{5,}", "?", regex=True)
    totals = sent["total_us"].groupby(texts).sum()
    largest = str(totals.idxmax())
    assert said.words[0][:40] == largest[:40], f"the largest total is that of {largest}"
    rows = sent.loc[texts == largest, "total_us"]
    return [100 * float(rows.sum()) / float(totals.sum()), len(rows), float(rows.mean()) / 1000]


@binds("server", "The longest single statement took <n> s and ended at <time> UTC: <text>.")
def name_longest(truth: Truth, said: Said) -> Expected:
    """The longest statement of a client."""
    sent, _ = truth.recording.executions
    longest = sent.nlargest(1, "total_us").iloc[0]
    assert said.words == (f"{longest['end']:%F %T}", longest["text"]), f"the longest is {longest['text']}"
    return [longest["total_us"] / 1e6]


@binds("server", "No record of severity WARNING or worse was logged.")
def deny_warnings(truth: Truth, said: Said) -> Expected:
    """The levels of the records."""
    levels = {level for log in truth.logs for *_, level, _ in log.records}
    assert not levels & {"WARNING", "ERROR", "FATAL", "PANIC"}, f"there are records of {sorted(levels)}"
    return []


@binds(
    "server",
    "The servers logged <n> completed checkpoints, but no lock waits, deadlocks, automatic vacuums, temporary files "
    "and ended sessions; other events may have occurred that they are not configured to log.",
)
def count_events(truth: Truth, said: Said) -> Expected:
    """Records of other events than statements."""
    texts = [text for log in truth.logs for *_, text in log.records]
    absent = ("still waiting for", "deadlock detected", "automatic vacuum", "temporary file:", "disconnection:")
    found = [word for word in absent if any(word in text for text in texts)]
    assert not found, f"the logs have records of {found}"
    return [sum(text.startswith("checkpoint complete") for text in texts)]


@binds(
    "server",
    "A <op> executed on another node takes <n> ms on average: <n> % in the parent, <n> % in the child and <n> % "
    "between them.",
)
def divide_remote(truth: Truth, said: Said) -> Expected:
    """All statements of that kind with tasks on other nodes."""
    sent, _ = truth.recording.executions
    return truth.divide(sent[(sent["kind"] == said.words[0]) & (sent["executed"] == "remote")])[1:]
