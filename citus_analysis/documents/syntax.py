r"""Where documents bind numbers and figures, in the syntax of each kind of document.

==================  ==================================================
Markdown, notebook  ``<!-- ca: FORM -->8.0<!-- /ca --> times``
HTML                the same, or ``<b data-ca="FORM">8.0</b> times``
LaTeX               ``\ca{FORM}{8.0} times`` with ``\newcommand{\ca}[2]{#2}``
==================  ==================================================

A reader sees the number alone. In Markdown and in Markdown cells of notebooks, code is left out; in LaTeX, comments
are. Documents are read and written as they are: what is not between the marks stays, byte for byte.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from citus_analysis.errors import FormatError, InputError
from citus_analysis.texts.documents import parse_json

_CLOSED: Final = "an opening mark <!-- ca: FORM --> and a closing one <!-- /ca --> enclose one number"
#: Fenced blocks, comments with marks, other comments, inline code: whichever begins first.
_MARKDOWN: Final = re.compile(
    r"(?P<fence>^(?P<indent>[ >]*)(?P<ticks>`{3,}|~{3,})[^\n]*\n.*?(?:^[ >]*(?P=ticks)[`~]*[ \t]*\r?$|\Z))"
    r"|<!--\s*ca:(?P<form>.*?)-->|(?P<end><!--\s*/ca\s*-->)|(?P<comment><!--.*?-->)"
    r"|(?P<code>(?P<quotes>`+)(?!`).+?(?<!`)(?P=quotes)(?!`))",
    re.DOTALL | re.MULTILINE,
)
_HTML: Final = re.compile(
    r"(?P<fence><(?P<raw>script|style|pre|code)\b.*?</(?P=raw)\s*>)"
    r"|<!--\s*ca:(?P<form>.*?)-->|(?P<end><!--\s*/ca\s*-->)|(?P<comment><!--.*?-->)",
    re.DOTALL | re.IGNORECASE,
)
_ATTRIBUTE: Final = re.compile(
    r"""<(?P<tag>[A-Za-z][\w-]*)\b(?P<other>[^<>"']*(?:"[^"]*"[^<>"']*|'[^']*'[^<>"']*)*?)"""
    r"""\sdata-ca=(?:"(?P<form>[^"]*)"|'(?P<single>[^']*)')"""
    r"""[^<>"']*(?:"[^"]*"[^<>"']*|'[^']*'[^<>"']*)*>(?P<text>[^<]*)(?P<close></(?P=tag)\s*>)?"""
)
_LATEX_COMMENT: Final = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*")
_LATEX: Final = re.compile(r"\\ca\s*(?=\{)")
#: What may be before the first character of a line of Markdown: quotations, the mark of a list.
_LINE_BEGIN: Final = re.compile(r"[ >]*(?:(?:[-*+]|\d+[.)])\s+)*\s*")
#: An image in Markdown, HTML or LaTeX.
_IMAGE: Final = re.compile(
    r"!\[[^\]]*\]\(\s*<?(?P<markdown>[^)\s>]+)|<?img\b[^>]*?\ssrc=[\"'](?P<html>[^\"']+)"
    r"|\\includegraphics(?:\[[^\]]*\])?\{(?P<latex>[^}]+)\}"
)
_JSON_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
#: A character of a JSON string, as it is or escaped; two escapes are one character beyond U+FFFF.
_CHARACTER: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)
#: The first characters after a mark, in which its unit may be.
_FOLLOWING: Final = 40
_MOST_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class Binding:
    """A bound place of a document.

    Attributes:
        form: what it is bound to, as written.
        text: what a reader sees.
        starts: where each character of the text begins in the file.
        ends: where each ends; of a notebook, a character may be an escape.
        insert_at: where the opening mark ends: the place of a text that is empty.
        outer: where the opening mark begins and the closing mark ends.
        line: line of the text in the file.
        following: what follows the closing mark, on the same line.
    """

    form: str
    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    insert_at: int
    outer: tuple[int, int]
    line: int
    following: str

    @property
    def image(self) -> str | None:
        """The path of the image in it, as written; None if there is none."""
        found = _IMAGE.search(self.text)
        return next(filter(None, found.groups()), None) if found else None


@dataclass(frozen=True)
class Document:
    """A document and its bound places.

    Attributes:
        path: the file.
        content: its text, with line ends as in the file.
        bindings: its bound places in their order.
        prose: the parts of the document in which numbers are text: no code, no comments, no bound places. Each is
            a line and its place in the document.
    """

    path: Path
    content: str
    bindings: tuple[Binding, ...]
    prose: tuple[tuple[int, str], ...]

    def line_at(self, place: int) -> int:
        """The number of the line at a place."""
        return self.content.count("\n", 0, place) + 1

    def mark(self, form: str, text: str) -> str:
        """A text with a mark around it, in the syntax of the document."""
        if self.path.suffix.lower() == ".tex":
            escaped = re.sub(r"([%_&#])", r"\\\1", form)
            return rf"\ca{{{escaped}}}{{{text}}}"
        return f"<!-- ca: {form} -->{text}<!-- /ca -->"

    def replace(self, changes: Iterable[tuple[Binding, int, int, str]]) -> str:
        """The document with other texts in its bound places.

        Args:
            changes: binding, first and last place within its text, and what stands there instead.
        """
        parts, at = [], 0
        for binding, first, last, text in sorted(changes, key=lambda change: change[0].insert_at):
            start = binding.starts[first] if first < last else binding.insert_at
            end = binding.ends[last - 1] if first < last else binding.insert_at
            written = json.dumps(text, ensure_ascii=False)[1:-1] if self.path.suffix.lower() == ".ipynb" else text
            parts += [self.content[at:start], written]
            at = end
        return "".join([*parts, self.content[at:]])


#: A cell of a notebook, as far as it is read.
_Cell: TypeAlias = dict[str, str | list[str]]


class _MappedText(NamedTuple):
    """A text within a file: its characters, and where each begins and ends in the file."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def make_whole(cls, content: str) -> _MappedText:
        """All of a file that is plain text."""
        return cls(content, range(len(content)), range(1, len(content) + 1))


def read_document(path: str | PathLike[str]) -> Document:
    """A document with its bound places.

    Raises:
        InputError: it cannot be read, is no kind of document that can be bound, or a mark is not closed; the message
            names file and line.
    """
    file = Path(path)
    if file.suffix.lower() not in _READERS:
        raise InputError(
            f"is no document whose numbers can be bound: {file.suffix or 'it has no suffix'}",
            path=file,
            hint=f"known: {', '.join(_READERS)}",
        )
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise InputError("is larger than 64 MiB", path=file, hint="check the documents that it is made of")
        content = data.decode("utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=file, hint="check the path") from error
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8", path=file, place=f"byte {error.start}", hint="convert it to UTF-8") from error
    return parse_document(file, content)


def parse_document(path: Path, content: str) -> Document:
    """The text of a document, whose kind is that of its path.

    Raises:
        InputError: a mark is not closed, or what is in a file of this kind is none.
    """
    try:
        bindings, prose = _READERS[path.suffix.lower()](content)
    except FormatError as error:
        raise InputError(error.problem, path=path, place=error.place, hint=error.hint) from error
    return Document(path, content, tuple(bindings), tuple(prose))


def find_documents(paths: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[Path]:
    """The documents among files and in folders, in their order, those of a folder by name; no hidden ones.

    Raises:
        InputError: a path does not exist, or a folder has no documents.
    """
    found: list[Path] = []
    for path in map(Path, [paths] if isinstance(paths, str | PathLike) else paths):
        if path.is_dir():
            inside = sorted(_iterate_folder(path))
            if not inside:
                raise InputError("has no documents", path=path, hint=f"known: {', '.join(_READERS)}")
            found += inside
        elif path.exists():
            found.append(path)
        else:
            raise InputError("there is no such document", path=path, hint="check the path")
    return list(dict.fromkeys(found))


def _iterate_folder(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        yield from (Path(root, name) for name in files if Path(name).suffix.lower() in _READERS and name[0] != ".")


_Read = tuple[list[Binding], list[tuple[int, str]]]


def _read_markdown(content: str) -> _Read:
    return _read_marks(content, _MappedText.make_whole(content), _MARKDOWN)


def _read_html(content: str) -> _Read:
    return _read_marks(content, _MappedText.make_whole(content), _HTML)


def _read_marks(content: str, mapped: _MappedText, pattern: re.Pattern[str]) -> _Read:
    """Bindings by comments and attributes, and the prose around them."""
    text, places = mapped.text, mapped.starts
    bindings: list[Binding] = []
    hidden: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for found in pattern.finditer(text):
        if found["form"] is not None:
            if opened is not None:
                raise _make_mark_error(content, places[opened.start()], "the mark is not closed before the next one")
            _check_comment(content, mapped, found, is_markdown=pattern is _MARKDOWN)
            opened = found
        elif found["end"] is not None:
            if opened is None:
                raise _make_mark_error(content, places[found.start()], "nothing is open that this mark closes")
            spans = (opened.end(), found.start(), opened.start(), found.end())
            bindings.append(_bind(content, mapped, opened["form"], spans))
            hidden.append((opened.start(), found.end()))
            opened = None
        elif opened is None:
            hidden.append(found.span())
    if opened is not None:
        raise _make_mark_error(content, places[opened.start()], "the mark is not closed")
    bindings += _read_attributes(content, mapped, hidden)
    return sorted(bindings, key=lambda one: one.insert_at), list(_iterate_prose(text, hidden, places))


def _check_comment(content: str, mapped: _MappedText, found: re.Match[str], *, is_markdown: bool) -> None:
    """Refuse a comment that readers would see, or that would keep the rest of its line from being Markdown.

    Source: CommonMark 0.29 (GitHub's), 4.6 HTML blocks, and 6.10 raw HTML: no `--` within a comment.
    """
    place = mapped.starts[found.start()]
    if "--" in found["form"]:
        hint = "for a key of a file, write * in place of what is around it: *jobs 2"
        raise _make_mark_error(content, place, "a comment with -- in it is shown as text", hint)
    begin = mapped.text.rfind("\n", 0, found.start()) + 1
    rest = mapped.text[found.end() :].partition("\n")[0]
    if is_markdown and rest.strip() and _LINE_BEGIN.fullmatch(mapped.text[begin : found.start()]):
        hint = "let a word come before a number, and put each mark of a figure on a line of its own"
        raise _make_mark_error(content, place, "a line that begins with a comment is HTML, not Markdown", hint)


def _read_attributes(content: str, mapped: _MappedText, hidden: list[tuple[int, int]]) -> list[Binding]:
    """Bindings by attributes; each is added to what is hidden."""
    bindings = []
    for found in _ATTRIBUTE.finditer(mapped.text):
        if any(a <= found.start() < b for a, b in hidden):
            continue
        form = html.unescape(found["form"] if found["form"] is not None else found["single"])
        tag, is_image = found.span("tag"), found["tag"].lower() == "img"
        if not is_image and not found["close"]:
            name = found["tag"]
            raise _make_mark_error(
                content, mapped.starts[found.start()], f"the element {name} has more than a number in it"
            )
        inside = (found.start(), found.start("text")) if is_image else found.span("text")
        outer = inside if is_image else found.span()
        bindings.append(
            _bind(content, mapped, form, (max(inside[0], tag[0]) if is_image else inside[0], inside[1], *outer))
        )
        hidden.append(outer)
    return bindings


def _bind(content: str, mapped: _MappedText, form: str, spans: tuple[int, int, int, int]) -> Binding:
    start, end, outer_start, outer_end = spans
    # An opening mark has characters, so there is one before the text; its end is the place of an empty text.
    insert_at = mapped.ends[start - 1]
    return Binding(
        form=" ".join(form.split()),
        text=mapped.text[start:end],
        starts=mapped.starts[start:end],
        ends=mapped.ends[start:end],
        insert_at=insert_at,
        outer=(mapped.starts[outer_start], mapped.ends[outer_end - 1]),
        line=content.count("\n", 0, insert_at) + 1,
        following=mapped.text[outer_end : outer_end + _FOLLOWING].partition("\n")[0],
    )


def _iterate_prose(text: str, hidden: list[tuple[int, int]], places: Sequence[int]) -> Iterator[tuple[int, str]]:
    at = 0
    for a, b in [*sorted(hidden), (len(text), len(text))]:
        start = at
        for line in text[at : max(at, a)].splitlines(keepends=True):
            if line.strip():
                yield places[start], line
            start += len(line)
        at = max(at, b)


def _make_mark_error(content: str, place: int, problem: str, hint: str = _CLOSED) -> FormatError:
    return FormatError(problem, place=f"line {content.count(chr(10), 0, place) + 1}", hint=hint)


def _read_latex(content: str) -> _Read:
    # Comments keep their length, so that places stay.
    text = _LATEX_COMMENT.sub(lambda found: found[1] + " " * (len(found[0]) - len(found[1])), content)
    mapped = _MappedText.make_whole(text)
    bindings: list[Binding] = []
    hidden: list[tuple[int, int]] = []
    for found in _LATEX.finditer(text):
        form_end = _find_closing_brace(text, found.end())
        second = re.compile(r"\s*\{").match(text, form_end) if form_end else None
        text_end = _find_closing_brace(text, second.end() - 1) if second else None
        if form_end is None or second is None or text_end is None:
            hint = r"write \ca{FORM}{NUMBER}"
            raise FormatError(
                "the macro is not closed", place=f"line {text.count(chr(10), 0, found.start()) + 1}", hint=hint
            )
        form = re.sub(r"\\([%_&#])", r"\1", text[found.end() + 1 : form_end - 1])
        bindings.append(_bind(content, mapped, form, (second.end(), text_end - 1, found.start(), text_end)))
        hidden.append((found.start(), text_end))
    return bindings, list(_iterate_prose(text, hidden, mapped.starts))


def _find_closing_brace(text: str, opening: int) -> int | None:
    """The place after the brace that closes the one at a place."""
    depth = 0
    for found in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, opening):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if not depth:
            return found.end()
    return None


def _read_notebook(content: str) -> _Read:
    """Bindings in the Markdown cells; places are those in the file, within its JSON strings."""
    try:
        cells = _read_sources(content)
    except (FormatError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise FormatError("is no notebook of nbformat 4", hint="open and save it in JupyterLab") from error
    bindings: list[Binding] = []
    prose: list[tuple[int, str]] = []
    for kind, strings in cells:
        if kind == "markdown":
            found, texts = _read_marks(content, _decode_strings(content, strings), _MARKDOWN)
            bindings += found
            prose += texts
    return bindings, prose


def _read_sources(content: str) -> list[tuple[str, list[tuple[int, int]]]]:
    """The kind of each cell, and where the strings of its source are in the file, without their quotation marks.

    Each string of the file is numbered before the file is read as JSON.
    """
    spans: list[tuple[int, int]] = []

    def number(found: re.Match[str]) -> str:
        spans.append((found.start() + 1, found.end() - 1))
        return f'"{len(spans) - 1}:{found[0][1:]}'

    def drop_number(text: str) -> str:
        return text.partition(":")[2]

    def select_key(document: Mapping[str, list[_Cell]], name: str) -> list[_Cell]:
        return next(value for key, value in document.items() if drop_number(key) == name)

    numbered = _JSON_STRING.sub(number, content)
    found = []
    for numbered_cell in select_key(parse_json(numbered), "cells"):
        cell = {drop_number(key): value for key, value in numbered_cell.items()}
        source = cell["source"]
        texts = [source] if isinstance(source, str) else source
        found.append((drop_number(str(cell["cell_type"])), [spans[int(text.partition(":")[0])] for text in texts]))
    return found


def _decode_strings(content: str, strings: Sequence[tuple[int, int]]) -> _MappedText:
    characters: list[str] = []
    spans: list[tuple[int, int]] = []
    for start, end in strings:
        for found in _CHARACTER.finditer(content, start, end):
            characters.append(str(parse_json(f'"{found[0]}"')) if len(found[0]) > 1 else found[0])
            spans.append(found.span())
    return _MappedText("".join(characters), [a for a, _ in spans], [b for _, b in spans])


#: Suffix of a document -> how its marks are found.
_READERS: Final[dict[str, Callable[[str], _Read]]] = {
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".ipynb": _read_notebook,
    ".html": _read_html,
    ".htm": _read_html,
    ".tex": _read_latex,
}
