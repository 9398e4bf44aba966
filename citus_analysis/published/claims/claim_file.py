"""Files of claims: YAML, a list of claims with their sources, places and forms."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from citus_analysis.core.shipped_files import shipped
from citus_analysis.errors import CitusAnalysisError, FormatError, InputError
from citus_analysis.published.claims.claim_form import Form, parse_form
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.yaml_text import YAML_LIMIT_BYTES, parse_yaml

_WAY_OUT: Final = "docs/claims.md describes the file"


class StatedClaim(BaseModel):
    """One claim of a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: str = Field(min_length=1, description="the sentence")
    source: str = Field(min_length=1, description="who claims it; the key of a publication if it is one of ours")
    place: str = Field(min_length=1, description="page, section, table or figure")
    form: str | None = Field(None, max_length=1_000, description="what runs are judged by")
    printed: str | None = Field(
        None, max_length=1_000, description="what the publication's own printed numbers are judged by"
    )

    @field_validator("form", "printed")
    @classmethod
    def _has_a_form(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                parse_form(text)
            except FormatError as error:
                raise ValueError(f"{error.problem} ({error.way_out})") from error
        return text

    @model_validator(mode="after")
    def _can_be_judged(self) -> StatedClaim:
        if self.form is None and self.printed is None:
            raise ValueError("neither form nor printed is stated")
        return self


@dataclass(frozen=True)
class Claim:
    """A claim with its parsed forms.

    Attributes:
        stated: the claim as written.
        form: its form over runs; None if only printed numbers bear on it.
        printed: its form over the printed numbers of its source.
        path: the file.
        line: where it begins in the file.
    """

    stated: StatedClaim
    form: Form | None
    printed: Form | None
    path: Path
    line: int

    def refused(self, error: CitusAnalysisError) -> InputError:
        """An error about this claim, with its place."""
        return InputError(error.problem, path=self.path, place=f"line {self.line}", way_out=error.way_out or _WAY_OUT)


def read_claims(path: str | PathLike[str] | None = None) -> tuple[Claim, ...]:
    """The claims of a file; by default those that ship with the library.

    Raises:
        InputError: the file cannot be read, or is no list of claims; the message names file, line and field.

    Example:
        >>> len({claim.stated.source for claim in read_claims()})
        5
    """
    file = shipped("published") / "claims.yml" if path is None else Path(path)
    try:
        with file.open("rb") as opened:
            data = opened.read(YAML_LIMIT_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=file, way_out="check the path") from error
    try:
        document = parse_yaml(data)
    except FormatError as error:
        raise InputError(error.problem, path=file, place=error.place, way_out="check the indentation") from error
    if not isinstance(document, list) or not document:
        raise InputError("is not a list of claims", path=file, way_out=_WAY_OUT)
    root = yaml.compose(data, yaml.SafeLoader)
    assert isinstance(root, yaml.SequenceNode)  # noqa: S101 - the document is a list
    lines = [node.start_mark.line + 1 for node in root.value]
    try:
        stated = TypeAdapter(list[StatedClaim]).validate_python(document)
    except ValidationError as error:
        raise _invalid(error, file, lines) from error
    return tuple(
        Claim(one, _form(one.form), _form(one.printed), file, line) for one, line in zip(stated, lines, strict=True)
    )


def _form(text: str | None) -> Form | None:
    return None if text is None else parse_form(text)


def _invalid(error: ValidationError, file: Path, lines: list[int]) -> InputError:
    first = error.errors(include_url=False, include_context=False)[0]
    number, *fields = first["loc"]
    others = f"; {counted(error.error_count() - 1, 'further problem')}" if error.error_count() > 1 else ""
    named = f", field '{'.'.join(map(str, fields))}'" if fields else ""
    problem = first["msg"].removeprefix("Value error, ")
    line = lines[number] if isinstance(number, int) else 1
    return InputError(f"{problem}{others}", path=file, place=f"line {line}{named}", way_out=_WAY_OUT)
