"""Take a path apart into words and numbers, and find the words that say what the numbers are.

A number is a fact if a word of the field stands beside it: directly (`w4`, `16threads`, `run2`), or apart (`nodes=4`,
`results_8_workers`, `threads/16`). Which word belongs to which number is decided for a folder's or file's name at once:
in `3w_16c` words follow their numbers, in `w_3_c_16` they precede them.

Example:
    >>> [(token.text, token.label) for token in tokens_of("citus-4nodes/16threads_run2.txt")]
    [('citus', None), ('4', 'nodes'), ('16', 'threads'), ('2', 'run')]
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from citus_analysis.dataset.discover.identity import plain_name

#: Word beside a number -> what the number may be; of several, the contents of the files decide.
MEANINGS: Final = {
    **dict.fromkeys(("worker", "workers", "w", "wk", "node", "nodes", "n", "nw", "numworkers"), ("workers",)),
    **dict.fromkeys(("thread", "threads", "t", "th", "thr", "threadcount", "numthreads"), ("threads",)),
    **dict.fromkeys(("clients", "c", "conn", "conns", "connections", "cl", "concurrency"), ("threads",)),
    **dict.fromkeys(("vu", "vus", "vuser", "vusers", "terminals", "users", "warehouseworkers"), ("threads",)),
    **dict.fromkeys(("run", "runs", "r", "rep", "reps", "repeat", "repetition"), ("iteration",)),
    **dict.fromkeys(("iter", "iteration", "it", "i", "trial", "round", "pass", "attempt", "try"), ("iteration",)),
    "client": ("part", "threads"),
    **dict.fromkeys(("driver", "part", "par", "generator", "gen", "loadgen", "instance", "inst", "proc"), ("part",)),
    **dict.fromkeys(("records", "recs", "rows", "recordcount", "rc"), ("records",)),
    **dict.fromkeys(("scale", "sf", "s", "scalefactor", "warehouses", "wh"), ("scale_factor",)),
    **dict.fromkeys(("ops", "operations", "operationcount"), ("operations",)),
}
_DATE: Final = (
    r"20[0-9]{2}-[0-9]{2}-[0-9]{2}(?:[T_ -]?[0-9]{2}[-:_.h]?[0-9]{2}(?:[-:_.m]?[0-9]{2})?Z?)?"
    r"|20[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:[T_-]?[0-9]{4,6})?Z?|1[5-9][0-9]{8}"
)
_TOKEN: Final = re.compile(
    rf"(?P<date>(?<![0-9])(?:{_DATE})(?![0-9]))|(?P<number>[0-9]+(?:[kKmM](?![A-Za-z0-9]))?)|(?P<word>[^\W\d_]+)"
)
_ENDING: Final = re.compile(
    r"\.(?:log|out|output|txt|json|csv|tsv|dat|data|res|result|results|err|stdout|stderr)$", re.IGNORECASE
)
#: `outputRun` is two words.
_WORDS: Final = re.compile(r"[^\W\d_](?:(?<![a-z])[^\W\d_]|(?<=[a-z])(?![A-Z])[^\W\d_])*")
_FACTORS: Final = {"k": 1_000, "m": 1_000_000}


@dataclass(frozen=True)
class Token:
    """A word, number or date in a path.

    Attributes:
        text: as it stands there.
        kind: `word`, `number` or `date`.
        part: number of the folder or file in the path, from 0.
        cluster: number of the cluster in that part: tokens without anything between them form one.
        label: the word that says what the number is, in lower case; None if none does.
        is_name: the label stands directly before it, as in the name of a host: `node1`.
        fact: the fact that it states; `date` for a date, None where it is not explained.
        reason: why, in words.
    """

    text: str
    kind: str
    part: int
    cluster: int
    label: str | None = None
    is_name: bool = False
    fact: str | None = None
    reason: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """Its cluster in the path."""
        return self.part, self.cluster

    @property
    def number(self) -> int:
        """The value of a number, of which `k` and `m` are thousands and millions."""
        factor = _FACTORS.get(self.text[-1].lower(), 1)
        return int(self.text[:-1] if factor > 1 else self.text) * factor


def tokens_of(path: str, *, words_follow: bool = False) -> list[Token]:
    """The tokens of a path, without words that label numbers and without the suffix of the file.

    Args:
        path: folders and file, separated by slashes; what follows `#` names one of several sources in the file.
        words_follow: where words before numbers label as many as words after them, those after them do.
    """
    name, _, _ = path.partition("#")
    parts = plain_name(name).split("/")
    parts[-1] = _ENDING.sub("", parts[-1])
    found: list[Token] = []
    for number, part in enumerate(parts):
        own = list(_tokens_of_part(part, number, words_follow))
        if len(own) == 1 and own[0].kind == "number" and own[0].label is None and found and _is_label(found[-1]):
            own = [replace(own[0], label=found.pop().text.lower())]
        found += own
    return found


# Files of a folder share its name, and the folders above.
@lru_cache(maxsize=4096)
def _tokens_of_part(part: str, number: int, words_follow: bool) -> tuple[Token, ...]:
    return tuple(_labelled(_split(part, number), words_follow))


def _split(part: str, number: int) -> list[Token]:
    tokens: list[Token] = []
    cluster, end = -1, -1
    for match in _TOKEN.finditer(part):
        cluster += match.start() != end
        end = match.end()
        kind, text = str(match.lastgroup), match[0]
        known = kind != "word" or text.lower() in MEANINGS
        tokens += [Token(one, kind, number, cluster) for one in ([text] if known else _WORDS.findall(text))]
    return tokens


def _is_label(token: Token) -> bool:
    return token.kind == "word" and token.text.lower() in MEANINGS


def _labelled(tokens: Sequence[Token], words_follow: bool) -> list[Token]:
    """Tokens of a part with numbers labelled, first by words in their own cluster, then by words that stand alone."""
    found = list(tokens)
    for cluster in sorted({token.cluster for token in tokens}):
        places = [at for at, token in enumerate(found) if token.cluster == cluster]
        if not _is_undecided([found[at] for at in places]):
            found = _with_labels(found, places, words_follow)
    sizes = Counter(token.cluster for token in tokens)
    alone = {cluster for cluster, size in sizes.items() if size == 1}
    # Numbers of clusters that are labelled already separate words from further numbers.
    places = [at for at, token in enumerate(found) if token.cluster in alone or token.label]
    return _with_labels(found, places, words_follow)


def _is_undecided(cluster: Sequence[Token]) -> bool:
    """Whether tokens without anything between them say nothing.

    That is `6node50`, a word between two numbers, or an identifier that a program drew, whose letters only look like
    words of one letter: in `qklGYX9W`, `ZFPYR10W` and `a3n7` there are letters of other kinds beside them.
    """
    numbers = [token.kind == "number" for token in cluster]
    letters = [token.text for token in cluster if token.kind == "word" and len(token.text) == 1]
    others = [token.text for token in cluster if token.kind == "word" and not _is_label(token)]
    drawn = bool(letters and others) and (any(map(str.isupper, letters)) or any(len(one) == 1 for one in others))
    return drawn or (numbers[0] and numbers[-1] and sum(numbers) > 1)


def _with_labels(tokens: list[Token], places: Sequence[int], words_follow: bool) -> list[Token]:
    """Tokens of which those at some places are labelled by the word before or after them, whichever labels more."""
    before = {at: previous for previous, at in pairwise(places) if _labels(tokens, previous, at)}
    after = {at: following for at, following in pairwise(places) if _labels(tokens, following, at)}
    chosen = after if len(after) + words_follow > len(before) else before
    used = set(chosen.values())
    return [
        token if (word := chosen.get(at)) is None else _labelled_by(token, tokens[word], is_before=word < at)
        for at, token in enumerate(tokens)
        if at not in used
    ]


def _labelled_by(token: Token, word: Token, *, is_before: bool) -> Token:
    return replace(token, label=word.text.lower(), is_name=is_before and word.cluster == token.cluster)


def _labels(tokens: Sequence[Token], word: int, number: int) -> bool:
    numbered = tokens[number]
    return _is_label(tokens[word]) and numbered.kind == "number" and numbered.label is None
