"""Base of the parts of an experiment file: their strictness, and kinds of values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from citus_analysis.core.shipped_files import shipped

#: Key of the validation context: the folder of the experiment file.
FOLDER = "folder"

Setting = str | int | float | bool
Positive = Annotated[int, Field(gt=0)]


class Part(BaseModel):
    """A part of an experiment file: unknown fields are refused, and its values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _beside_the_experiment(path: Path, info: ValidationInfo) -> Path:
    context = info.context if isinstance(info.context, dict) else {}
    folders = [Path(folder) for folder in [context.get(FOLDER)] if folder] + [Path(), shipped("experiments")]
    places = [folder / path for folder in folders]
    return next((place for place in places if place.is_file()), places[0]).absolute()


#: A path that is made absolute, because programs are launched in folders of their own.
LocalPath = Annotated[Path, AfterValidator(Path.absolute)]
#: A file that belongs to the experiment: beside the experiment file, in the working folder, or a shipped one.
LocalFile = Annotated[Path, AfterValidator(_beside_the_experiment)]


def setting_text(value: Setting) -> str:
    """A server setting as a text for PostgreSQL.

    Example:
        >>> setting_text(True), setting_text(4)
        ('on', '4')
    """
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
