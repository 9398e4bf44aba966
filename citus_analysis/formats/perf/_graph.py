"""Call graphs of `perf report --stdio`: whole stacks, from the lines below an entry.

An entry is followed by a tree of the paths that lead to its symbol, drawn with lines or, with `-g folded`, one path
per line. Two properties differ between reports; they are detected from all entries of a report together:

- the order: callees first (the entry's symbol begins its paths) or callers first (it ends them);
- the shares: of all samples (`-g graph`), or of the parent (`-g fractal`), where branches add up to more than
  their parent.

perf hides branches below a limit (0.5 % by default), and a path may end where others continue. The share that a node's
branches do not cover therefore becomes a stack whose far end is :data:`REST`, perf's own sign for it, so that the
shares of an entry's stacks add up to its own.

Under `--children` an entry's tree also contains the samples of the functions that it called, from itself downwards; its
own samples are there from the root of their stacks. If callers are first, the entry's own samples are the paths that
end with its symbol; if callees are first, the two can be distinguished only if the entry called nothing. Ambiguous
shares become a stack with :data:`REST`, so that every sample counts once.

Example:
    >>> lines = ["---work", "   |", "   |--6.00%--main", "   |", "    --3.00%--serve", "             main"]
    >>> [stacks] = report_stacks([Entry(10.0, "work", lines)])
    >>> stacks
    [('main;work', 6.0), ('main;serve;work', 3.0), ('[...];work', 1.0)]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

#: Placeholder for the frames of a stack that perf did not print.
REST: Final = "[...]"

#: A path of `-g folded`: share, then frames joined by semicolons.
FOLDED: Final = r"^([0-9]+\.[0-9]+)% (\S.*)$"

_BRANCH: Final = re.compile(r"^([\s|]*)--([0-9]+\.[0-9]+)%--\s*(\S.*)$")
_ROOT: Final = re.compile(r"^([\s|]*)---\s*(\S.*)$")
_FRAME: Final = re.compile(r"^[\s|]*([^\s|].*)$")
_FOLDED: Final = re.compile(FOLDED)
_INLINED: Final = " (inlined)"

#: Printed shares are rounded to 0.01.
_HALF_DIGIT: Final = 0.005


@dataclass(frozen=True)
class Entry:
    """An entry of a report: its share, symbol and call graph, and under --children its share with callees.

    Attributes:
        percent: share of the samples taken in the function itself.
        symbol: its name.
        lines: its call graph as printed.
        children_percent: share of the samples taken in it or in its callees; None under --no-children.
    """

    percent: float
    symbol: str
    lines: Sequence[str]
    children_percent: float | None = None


@dataclass
class _Node:
    """A stretch of frames without a fork; `column` is the column of the line from its parent."""

    column: int
    percent: float
    frames: list[str]
    children: list[_Node] = field(default_factory=list)

    def over_full(self) -> bool:
        """Whether the branches of some node add up to more than the node itself."""
        rounding = _HALF_DIGIT * (len(self.children) + 1)
        total = sum(child.percent for child in self.children)
        return total > self.percent + rounding or any(child.over_full() for child in self.children)

    def make_absolute(self) -> None:
        """Turn the branches' shares of their parent into shares of all samples."""
        for child in self.children:
            if child.column != _ALL_OF_IT:
                child.percent *= self.percent / 100
            child.make_absolute()

    def rest(self) -> float:
        """The share that no branch accounts for; 0 if rounding explains it."""
        if not self.children:
            return self.percent
        left = self.percent - sum(child.percent for child in self.children if child.frames != [REST])
        return left if left > _HALF_DIGIT * (len(self.children) + 1) else 0.0

    def paths(self, before: list[str]) -> list[tuple[list[str], float, bool]]:
        """Frames in printed order, share, and whether the path continues in frames that were not printed."""
        frames = before + self.frames
        own = [(frames, self.rest(), bool(self.children) or not frames)] if self.rest() else []
        return [path for child in self.children if child.frames != [REST] for path in child.paths(frames)] + own


#: Column of the node that `---` begins, which has its parent's whole share.
_ALL_OF_IT: Final = -1


def report_stacks(entries: Sequence[Entry]) -> list[list[tuple[str, float]]]:
    """For each entry its stacks from root to leaf, with their shares of all samples in percent."""
    trees = [_tree(entry) for entry in entries]
    if any(tree.over_full() for tree in trees):
        for tree in trees:
            tree.make_absolute()
    pairs = list(zip(trees, entries, strict=True))
    if any(entry.children_percent is not None for entry in entries):
        callers_first = any(_own_paths(tree, entry.symbol) for tree, entry in pairs)
        return [_own_stacks(tree, entry, callers_first) for tree, entry in pairs]
    callers_first = sum(_vote(tree, entry.symbol) for tree, entry in pairs) > 0
    return [_stacks(tree, entry.symbol, callers_first) for tree, entry in pairs]


def _own_paths(tree: _Node, symbol: str) -> list[tuple[list[str], float]]:
    """The paths that lead from another function to the entry's symbol, with their shares."""
    paths = [(frames, share) for frames, share, goes_on in tree.paths([]) if not goes_on]
    return [(frames, share) for frames, share in paths if frames[-1] == symbol != frames[0]]


def _own_stacks(tree: _Node, entry: Entry, callers_first: bool) -> list[tuple[str, float]]:
    """Stacks of the entry's own samples in a report made with --children."""
    if (entry.children_percent or 0.0) - entry.percent <= _HALF_DIGIT:
        # It called nothing: its tree contains only its own samples.
        return _stacks(tree, entry.symbol, callers_first)
    # The symbol alone represents its callees if perf hides all of them.
    own = [(";".join(frames), share) for frames, share in _own_paths(tree, entry.symbol) if callers_first]
    rounding = _HALF_DIGIT * (len(own) + 1)
    left = entry.percent - sum(share for _, share in own)
    if left < -rounding:
        own, left = [], entry.percent
    return [*own, *([(f"{REST};{entry.symbol}", left)] if left > rounding else [])]


def _tree(entry: Entry) -> _Node:
    whole = entry.percent if entry.children_percent is None else entry.children_percent
    root = _Node(_ALL_OF_IT - 1, whole, [])
    if entry.lines and _FOLDED.match(entry.lines[0]):
        folded = filter(None, map(_FOLDED.match, entry.lines))
        root.children = [_Node(0, float(match[1]), match[2].split(";")) for match in folded]
        return root
    path = [root]
    for line in entry.lines:
        if (branch := _BRANCH.match(line)) is not None:
            # A node's last branch has a blank in place of the line of the other branches.
            column = len(branch[1]) - 1
            while len(path) > 1 and path[-1].column >= column:
                path.pop()
            _attach(path, _Node(column, float(branch[2]), [_name(branch[3])]))
        elif (start := _ROOT.match(line)) is not None:
            path = [root]
            _attach(path, _Node(_ALL_OF_IT, root.percent, [_name(start[2])]))
        elif (frame := _FRAME.match(line)) is not None:
            path[-1].frames.append(_name(frame[1]))
    return root


def _attach(path: list[_Node], node: _Node) -> None:
    path[-1].children.append(node)
    path.append(node)


def _name(text: str) -> str:
    return text.strip().removesuffix(_INLINED)


def _vote(tree: _Node, symbol: str) -> float:
    """Share of the paths that end with the entry's symbol minus those that begin with it."""
    paths = [(frames, share) for frames, share, goes_on in tree.paths([]) if len(frames) > 1 and not goes_on]
    return sum(share * ((frames[-1] == symbol) - (frames[0] == symbol)) for frames, share in paths)


def _stacks(tree: _Node, symbol: str, callers_first: bool) -> list[tuple[str, float]]:
    stacks = []
    for printed, share, goes_on in tree.paths([]):
        rest = [REST] if goes_on else []
        if not printed:
            frames = [REST, symbol]
        elif callers_first:
            frames = [*printed, *rest, *([symbol] if goes_on else [])]
        else:
            frames = [*rest, *reversed(printed)]
        stacks.append((";".join(frames), share))
    return stacks
