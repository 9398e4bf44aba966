"""The design of a study whose files follow no convention: which runs there are, and in what they differ.

The names of all files are taken apart together. A token that varies is a factor. What it means is only believed with
evidence: a word beside a number, equality with what the files say themselves, or a design that closes, in which each
cell has the same repeats. What is not explained is part of the set-up: results that differ in it never share a series.
Several files of a cell are generators of one run if they ran at the same time, and repeats otherwise.

Facts that somebody states, and what a file says of itself, have priority over its name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from citus_analysis.dataset.discover.identity import Facts, Identity, path_stem
from citus_analysis.dataset.discover.source_file import SourceFile
from citus_analysis.dataset.discover.study.companions import Companion
from citus_analysis.dataset.discover.study.name_tokens import MEANINGS, Token, tokens_of
from citus_analysis.dataset.discover.study.own_facts import OwnFacts
from citus_analysis.runs.setups import USUAL_SET_UP
from citus_analysis.texts.counted_words import counted

#: Facts that names and contents both may state.
_COMPARED: Final = ("threads", "scale_factor", "records", "operations")
#: Facts that numbers in names state.
_NUMBERED: Final = (*_COMPARED, "workers", "iteration", "part")
#: Facts of an identity that only tell runs of a cell apart.
_WITHIN_CELL: Final = frozenset({"iteration", "part", "drivers", "run", "role", "start_time", "end_time", "resource"})
#: Words that name one host where a number follows them directly.
_HOSTS: Final = ("node", "worker")
#: Number of the part of a path that is the folder which was given.
_ABOVE: Final = -1
_PHASE_WORDS: Final = {
    "load": ("load", "loading", "insert", "inserts"),
    "run": ("run", "select", "selects", "read", "reads", "transactions"),
}
#: Where at least this share of the cells has all repeats, the design closes.
_CLOSED_SHARE: Final = 0.5
#: A word means what files say of themselves if at least this share of them agrees; the others contradict their names.
_AGREEING_SHARE: Final = 0.7


@dataclass(frozen=True)
class Member:
    """A load generator's output in a study.

    Attributes:
        file: the file; its identity is that of the design.
        tokens: the tokens of its path, with what they were taken for.
        own: what the file says of itself.
        inferred: names of the facts of its identity that were read off names and times.
    """

    file: SourceFile
    tokens: tuple[Token, ...]
    own: OwnFacts
    inferred: tuple[str, ...] = ()

    def number(self, fact: str) -> int | None:
        """The number that the path states for a fact."""
        return next((token.number for token in self.tokens if token.fact == fact), None)

    def numbers(self, fact: str) -> set[int]:
        """All numbers that the path states for it."""
        return {token.number for token in self.tokens if token.fact == fact}

    @cached_property
    def unexplained(self) -> dict[tuple[int, int], str]:
        """Place and text of the tokens that are not explained; those without anything between them are one."""
        texts: dict[tuple[int, int], str] = {}
        for token in self.tokens:
            if token.fact is None:
                texts[token.place] = texts.get(token.place, "") + (token.label or "") + token.text
        return texts


@dataclass(frozen=True)
class Design:
    """The design that was read.

    Attributes:
        members: the load generators' outputs, in the order of the files.
        contradictions: one line for each file whose name and contents differ.
        companions: logs, samples and profiles beside the outputs.
    """

    members: tuple[Member, ...] = ()
    contradictions: tuple[str, ...] = ()
    companions: tuple[Companion, ...] = ()

    @property
    def assumptions(self) -> list[str]:
        """What was assumed because nothing decides it, one line each."""
        parts = [m for m in self.members if m.number("part") is not None and m.file.identity.part is None]
        undated = [member.file.relative for member in parts if member.own.end is None]
        if not undated:
            return []
        what = "they count as repeats, because they have no times that show that they ran together"
        return [f"{counted(len(undated), 'output')} such as {undated[0]}: {what} (if so, state `part` in identity.yml)"]

    @property
    def remarks(self) -> list[str]:
        """What an ingest says of the design, one line each."""
        outputs = {name for member in self.members for name in member.inferred}
        others = {name for companion in self.companions for name in companion.reasons}
        of_outputs = f"{counted(len(self.members), 'output')} of load generators: {_listed(outputs)} and times"
        of_others = f"{counted(len(self.companions), 'file')} of servers and hosts: {_listed(others)} and folders"
        what = [text for facts, text in ((outputs, of_outputs), (others, of_others)) if facts]
        remarks = [f"{one} (what and why: citus-analysis inspect)" for one in what]
        return [*remarks, *self.contradictions, *self.assumptions] if outputs else remarks


def _listed(facts: Collection[str]) -> str:
    return f"{', '.join(sorted(facts))} read off names"


def read_design(files: Sequence[SourceFile], *, beside_others: bool = False) -> Design:
    """The design of a study.

    Args:
        files: outputs of load generators whose run nobody states.
        beside_others: there are results of other folders, from which those of these files must be distinguished.
    """
    several = beside_others or len({file.root for file in files}) > 1
    readings = [
        _with_labels([Member(file, tuple(_tokens(file, several, follow)), file.own) for file in files])
        for follow in (False, True)
    ]
    # The first one of those that agree equally often with what the files say of themselves.
    members = max(readings, key=_agreements)
    for step in (_with_equal_numbers, _with_words, _with_repeats):
        members = step(members)
    placed = _with_runs(_with_set_ups(members, beside_others))
    contradictions = [line for member in placed for line in _contradictions(member)]
    if any(_contradicted(member) for member in placed):
        doubted = [_without_facts(member, _contradicted(end)) for member, end in zip(members, placed, strict=True)]
        placed = _with_runs(_with_set_ups(doubted, beside_others))
    return Design(tuple(placed), tuple(contradictions))


def _tokens(file: SourceFile, several: bool, words_follow: bool) -> Iterator[Token]:
    """The tokens of a path, and those of the folder that was given: all of them only where there are several."""
    own = tokens_of(file.relative if file.origin is None else file.key, words_follow=words_follow)
    above = [replace(token, part=_ABOVE) for token in tokens_of(file.root.name) if several or token.label]
    for token in (*above, *own):
        yield replace(token, fact="date", reason="a date") if token.kind == "date" else token


def _agreements(members: Sequence[Member]) -> int:
    """How often a number in a name equals the fact that the file states itself."""
    return sum(member.number(fact) == _own(member, fact) is not None for member in members for fact in _COMPARED)


def _own(member: Member, fact: str) -> int | None:
    stated = member.file.identity.to_dict().get(fact)
    return stated if isinstance(stated, int) else getattr(member.own, fact)


def _with_labels(members: Sequence[Member]) -> list[Member]:
    """Numbers beside a word of the field, unless the contents of the files refute it."""
    pairs: dict[str, list[tuple[int, Member]]] = defaultdict(list)
    for member in members:
        for token in member.tokens:
            if token.label is not None:
                pairs[token.label].append((token.number, member))
    meanings = {
        label: None if _is_rare_letter(label, uses, len(members)) else _meaning(label, uses)
        for label, uses in pairs.items()
    }

    def explained(token: Token) -> Token:
        fact = None if token.label is None else meanings[token.label]
        return token if fact is None else replace(token, fact=fact, reason=f"the word {token.label!r} beside it")

    return _stated_once([replace(member, tokens=tuple(map(explained, member.tokens))) for member in members])


def _stated_once(members: Sequence[Member]) -> list[Member]:
    """Of several numbers for one fact in a path, the first is it (of iterations the last), others are unexplained.

    Where they are equal in all paths, such as in names of folders and files, they say the same.
    """
    repeated = {fact for member in members for fact in _NUMBERED if len(member.numbers(fact)) > 1}

    def kept(member: Member) -> Member:
        tokens = list(member.tokens)
        for fact in repeated:
            places = [at for at, token in enumerate(tokens) if token.fact == fact]
            for at in places[:-1] if fact == "iteration" else places[1:]:
                tokens[at] = replace(tokens[at], fact=None, reason="")
        return replace(member, tokens=tuple(tokens))

    return [kept(member) for member in members] if repeated else list(members)


def _meaning(label: str, uses: Sequence[tuple[int, Member]]) -> str | None:
    first = MEANINGS[label][0]
    if label in _HOSTS and len({number for number, _ in uses}) == 1 and all(_names_host(m, label) for _, m in uses):
        return None
    if first == "iteration" and len(label) == 1 and not _counts_up({number for number, _ in uses}):
        return None
    for fact in _COMPARED:
        known = [(number, own) for number, member in uses if (own := _own(member, fact)) is not None]
        equal = sum(number == own for number, own in known)
        if fact in MEANINGS[label] and equal and equal == len(known) and len(set(known)) > 1:
            return fact
        if fact == first and equal < _AGREEING_SHARE * len(known) and not _are_sums(known, uses):
            return None
    return first


def _is_rare_letter(label: str, uses: Sequence[tuple[int, Member]], files: int) -> bool:
    """Whether a word of one letter stands in the names of few files, each time beside another word (`zfpyr10w`)."""
    return len(label) == 1 and 2 * len(uses) < files and all(_is_beside_a_word(member, label) for _, member in uses)


def _is_beside_a_word(member: Member, label: str) -> bool:
    words = {token.place for token in member.tokens if token.kind == "word"}
    return all(token.place in words for token in member.tokens if token.label == label)


def _names_host(member: Member, label: str) -> bool:
    """Whether a number is in the name of one host (`node1`), and not that of all of them."""
    return any(token.label == label and token.is_name for token in member.tokens)


def _counts_up(numbers: Collection[int]) -> bool:
    """Whether numbers are those of repeats: all of them from 0 or 1 on."""
    return min(numbers) in (0, 1) and len(numbers) == max(numbers) - min(numbers) + 1


def _are_sums(known: Sequence[tuple[int, int]], uses: Sequence[tuple[int, Member]]) -> bool:
    """Whether names that number load generators state the sum over these, of which each states its own."""
    times = {number / own if own else 0.0 for number, own in known}
    parts = {label for label, meanings in MEANINGS.items() if meanings[0] == "part"}
    numbered = all(any(token.label in parts for token in member.tokens) for _, member in uses)
    return numbered and len(times) == 1 and all(one > 1 and one.is_integer() for one in times)


def _slots(members: Sequence[Member]) -> dict[tuple[object, int], list[Member]]:
    """Unexplained numbers that stand alone: the shape of a name and the place among its tokens -> files."""
    found: dict[tuple[object, int], list[Member]] = defaultdict(list)
    for member in members:
        shape = tuple((token.fact or token.kind, *token.place) for token in member.tokens)
        clusters = Counter(token.place for token in member.tokens)
        for at, token in enumerate(member.tokens):
            is_number = token.fact is None and token.kind == "number" and token.label is None
            if is_number and clusters[token.place] == 1:
                found[shape, at].append(member)
    return found


def _with_equal_numbers(members: Sequence[Member]) -> list[Member]:
    """Numbers that equal a fact that each of the files states itself."""
    found: dict[tuple[int, int], Token] = {}
    for (_, at), uses in _slots(members).items():
        equal = (fact for fact in _COMPARED if all(one.tokens[at].number == _own(one, fact) for one in uses))
        if fact := next(equal, None):
            reason = f"equals what the files say of their {fact.replace('_', ' ')}"
            found |= {(id(one), at): replace(one.tokens[at], fact=fact, reason=reason) for one in uses}
    return _replaced(members, found)


def _replaced(members: Sequence[Member], found: Mapping[tuple[int, int], Token]) -> list[Member]:
    return [
        replace(member, tokens=tuple(found.get((id(member), at), token) for at, token in enumerate(member.tokens)))
        for member in members
    ]


def _with_words(members: Sequence[Member]) -> list[Member]:
    """Words that name the workload or the phase."""
    found: dict[tuple[int, int], Token] = {}
    for member in members:
        texts = [token.text.lower() if token.kind == "word" else "" for token in member.tokens]
        for at, text in enumerate(texts):
            if _letter(text) or (text == "workload" and at + 1 < len(texts) and _letter(f"workload{texts[at + 1]}")):
                for place in (at,) if _letter(text) else (at, at + 1):
                    token = replace(member.tokens[place], fact="workload", reason="names one of YCSB's workloads")
                    found[id(member), place] = token
            elif member.own.phase and text in _PHASE_WORDS[member.own.phase]:
                token = replace(member.tokens[at], fact="phase", reason="equals what the file says of its phase")
                found[id(member), at] = token
    return _replaced(members, found)


def _letter(text: str) -> str | None:
    """The letter of one of YCSB's core workloads."""
    name = text.removeprefix("workload")
    return name.upper() if name != text and len(name) == 1 and name in "abcdef" else None


def _with_repeats(members: Sequence[Member]) -> list[Member]:
    """The last number that varies, if it counts the repeats of each cell from 1 or 0."""
    found: dict[tuple[int, int], Token] = {}
    slots = _slots([member for member in members if member.number("iteration") is None])
    last: dict[object, int] = {}
    for (shape, at), uses in slots.items():
        if len({member.tokens[at].number for member in uses}) > 1:
            last[shape] = max(at, last.get(shape, at))
    for shape, at in last.items():
        uses = slots[shape, at]
        if _closes(uses, at) and not _is_of_word(uses, at, members):
            reason = "each cell has the same numbers from the first on"
            found |= {(id(one), at): replace(one.tokens[at], fact="iteration", reason=reason) for one in uses}
    return _replaced(members, found)


def _is_of_word(uses: Sequence[Member], at: int, members: Sequence[Member]) -> bool:
    """Whether numbers are of the word before them (`partition.1`): it is always the same, and other files lack it."""
    words = {_word_before(member.tokens, at) for member in uses}
    word = next(iter(words)) if len(words) == 1 else None
    return word is not None and any(word not in {token.text for token in member.tokens} for member in members)


def _word_before(tokens: Sequence[Token], at: int) -> str | None:
    """The unexplained word that stands before a token in the same folder's or file's name."""
    before = tokens[at - 1] if at else None
    if before is None or before.part != tokens[at].part or before.kind != "word" or before.fact:
        return None
    return before.text


def _closes(uses: Sequence[Member], at: int) -> bool:
    cells: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for member in uses:
        others = tuple(token.text for place, token in enumerate(member.tokens) if place != at)
        cells[(*others, *_contents(member))].append(member.tokens[at].number)
    numbers = {number for cell in cells.values() for number in cell}
    full = sum(len(cell) == len(numbers) for cell in cells.values())
    once = all(len(set(cell)) == len(cell) for cell in cells.values())
    return _counts_up(numbers) and once and full >= _CLOSED_SHARE * len(cells)


def _contents(member: Member) -> tuple[object, ...]:
    """What tells the cells of a design apart that files say themselves, or somebody states."""
    own = member.own
    stated = {k: v for k, v in member.file.identity.to_dict().items() if k not in _WITHIN_CELL}
    # Generators share the operations of a run, and need not do equally many.
    known = (own.threads, own.scale_factor, own.records, own.workload, own.phase)
    return (member.file.format.name if member.file.format else None, *known, tuple(sorted(stated.items())))


def _with_set_ups(members: Sequence[Member], beside_others: bool) -> list[Member]:
    """Identities with the set-up: the unexplained tokens in which files differ."""
    counts = [Counter(member.unexplained.values()) for member in members]
    common = {text for first in counts[:1] for text in first if all(one[text] == first[text] for one in counts)}
    if beside_others and members:
        common -= {text for (part, _), text in members[0].unexplained.items() if part == _ABOVE}
    return [_with_facts(member, common) for member in members]


def _with_facts(member: Member, common: Iterable[str]) -> Member:
    """A member with the identity that its name gives it; its run and its iteration are not yet known."""
    differing = [text for text in member.unexplained.values() if text not in common]
    named = {fact: member.number(fact) for fact in ("workers", "threads", "records", "operations", "iteration")}
    facts: Facts = {fact: value for fact, value in named.items() if value is not None}
    scale = member.number("scale_factor")
    if scale is not None and member.own.scale_factor is None:
        differing.append(f"scale {scale}")
    facts |= {"workload": workload} if (workload := _named_workload(member)) else {}
    facts |= {"set_up": "-".join(differing)} if differing else {}
    own = {fact: getattr(member.own, fact) for fact in ("workload", "phase", "records", "threads")}
    said: Facts = {fact: value for fact, value in own.items() if value is not None}
    stated = member.file.identity.to_dict()
    inferred = sorted(facts.keys() - said.keys() - stated.keys())
    identity = Identity.of({"set_up": USUAL_SET_UP} | facts | said | stated)
    return replace(member, file=replace(member.file, identity=identity), inferred=tuple(inferred))


def _named_workload(member: Member) -> str | None:
    texts = [token.text.lower() for token in member.tokens if token.fact == "workload"]
    return _letter("".join(texts)) if texts else None


def _contradicted(member: Member) -> list[str]:
    """The facts of which the name of a file says something else than the file itself."""
    drivers = member.file.identity.drivers or 1
    pairs = {fact: (member.number(fact), getattr(member.own, fact)) for fact in ("threads", "scale_factor")}
    return [
        fact for fact, (named, own) in pairs.items() if None not in (named, own) and named not in (own, own * drivers)
    ]


def _without_facts(member: Member, facts: Collection[str]) -> Member:
    """A member of whose name some numbers are not explained, so that they keep it apart from others."""
    tokens = (replace(token, fact=None, reason="") if token.fact in facts else token for token in member.tokens)
    return replace(member, tokens=tuple(tokens))


def _contradictions(member: Member) -> Iterator[str]:
    for fact in _contradicted(member):
        named, own = member.number(fact), getattr(member.own, fact)
        yield f"{member.file.relative}: its name says {named} {fact.replace('_', ' ')}, the file itself {own}"
    if (workload := _named_workload(member)) and member.own.workload not in (None, workload):
        yield f"{member.file.relative}: its name says workload {workload}, the file itself {member.own.workload}"


def _with_runs(members: Sequence[Member]) -> list[Member]:
    """Members with the run, part and iteration."""
    cells: dict[tuple[object, ...], list[Member]] = defaultdict(list)
    for member in members:
        identity = member.file.identity
        named = {k: v for k, v in identity.to_dict().items() if k not in _WITHIN_CELL}
        cells[(tuple(sorted(named.items())), *_contents(member))].append(member)
    placed = {id(old): new for cell in cells.values() for old, new in _placed(cell)}
    return [placed[id(member)] for member in members]


def _placed(cell: Sequence[Member]) -> Iterator[tuple[Member, Member]]:
    runs = _runs_of(cell)
    numbers = [{member.file.identity.iteration for member in run} for run in runs]
    known = [next(iter(number)) if len(number) == 1 else None for number in numbers]
    are_named = None not in known and len(set(known)) == len(known)
    for rank, run in enumerate(runs, start=1):
        iteration = known[rank - 1] if are_named or len(runs) == 1 else rank
        yield from ((member, _of_run(member, run, iteration)) for member in run)


def _runs_of(cell: Sequence[Member]) -> list[list[Member]]:
    """The members of each run in the order of time: those that ran at the same time, or are stated to be parts."""
    dates = {id(member): [token.text for token in member.tokens if token.fact == "date"] for member in cell}
    ordered = sorted(cell, key=lambda one: (dates[id(one)], one.own.begin or 0.0, one.file.location))
    runs: list[list[Member]] = []
    for member in ordered:
        for run in runs:
            if any(_of_one_run(member, other) for other in run):
                run.append(member)
                break
        else:
            runs.append([member])
    return runs


def _of_one_run(one: Member, other: Member) -> bool:
    """Whether two outputs are of one run: the same generator's two streams, stated parts, or times that overlap."""
    mine, its = one.file, other.file
    if mine.identity.resource == its.identity.resource and path_stem(mine.key) == path_stem(its.key):
        return True
    parts = mine.identity.part, its.identity.part
    if None not in parts and parts[0] != parts[1]:
        return mine.identity.iteration == its.identity.iteration
    return one.own.overlaps(other.own)


def _of_run(member: Member, run: Sequence[Member], iteration: int | None) -> Member:
    file, identity = member.file, member.file.identity
    names = list(dict.fromkeys(path_stem(one.file.key) for one in run))
    own = replace(identity, run=names[0], iteration=iteration)
    inferred = {*member.inferred, *(("iteration",) if iteration != identity.iteration else ())}
    if len(names) > 1:
        part = identity.part if identity.part is not None else names.index(path_stem(file.key))
        threads = identity.threads
        if threads is not None and threads == member.own.threads:
            threads *= len(names)
        own = replace(own, part=part, drivers=len(names), threads=threads, resource=run[0].file.identity.resource)
        inferred.add("drivers")
    return replace(member, file=replace(file, identity=own), inferred=tuple(sorted(inferred)))
