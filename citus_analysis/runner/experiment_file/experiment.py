"""The experiment file: the servers, the load generator, the varied values and the number of runs.

YAML, validated before anything starts; `citus-analysis run --schema` prints its JSON schema for editors. Secrets
have no field here: they come from the environment or from `PGPASSFILE`.

Example:
    >>> experiment = parse_experiment({"name": "demo", "matrix": {"workloads": ["load", "c"], "threads": [1, 4]}})
    >>> experiment.target.kind, experiment.driver.kind, experiment.iterations
    ('embedded', 'pgbench', 3)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from citus_analysis.core.shipped_files import shipped
from citus_analysis.errors import FormatError, InputError, UnknownNameError
from citus_analysis.redaction import redact_values
from citus_analysis.runner.experiment_file.changes import changed_document
from citus_analysis.runner.experiment_file.driver_fields import PgbenchDriver, YcsbDriver
from citus_analysis.runner.experiment_file.fields import FOLDER, Part, Positive
from citus_analysis.runner.experiment_file.matrix import CORE_NAMES, TAGS, Matrix
from citus_analysis.runner.experiment_file.measuring import Limits, Monitor, Samplers, StopRule
from citus_analysis.runner.experiment_file.own_workloads import CommandDriver, OwnWorkload
from citus_analysis.runner.experiment_file.target_fields import ClusterTarget, EmbeddedTarget, FilesTarget
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.yaml_text import YAML_LIMIT_BYTES, parse_yaml

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def _usable_in_file_names(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("only letters, digits, `_` and `-`, beginning with a letter or digit")
    return name


class Experiment(Part):
    """One experiment file."""

    name: Annotated[str, AfterValidator(_usable_in_file_names)] = Field(
        description="letters, digits, `_` and `-`; begins the names of the resources"
    )
    description: str = Field("", description="for readers; kept with the results")
    set_up: str | None = Field(
        None, min_length=1, description="the set-up in words (`8 shards`), as reports call it; default: the name"
    )
    target: EmbeddedTarget | ClusterTarget | FilesTarget = Field(
        EmbeddedTarget(), discriminator="kind", description="the servers under test"
    )
    driver: PgbenchDriver | YcsbDriver | CommandDriver = Field(
        PgbenchDriver(), discriminator="kind", description="the load generator"
    )
    matrix: Matrix = Field(description="the values that are varied")
    iterations: Positive = Field(3, description="runs of every configuration")
    order: Literal["interleaved", "sequential", "study"] = Field(
        "interleaved",
        description="interleaved: one randomised block per iteration, so that drift affects all equally; study: size "
        "by size, workloads in the order load, a, b, c, f, d, load-e, e, and the table is filled only if necessary",
    )
    between: list[Literal["vacuum", "checkpoint"]] = Field(
        [],
        description="steps before every measured run, in this order: VACUUM of the table, CHECKPOINT of nodes",
    )
    seed: int = Field(1, description="seed of the random order; recorded with the results")
    warmup_s: float = Field(0, ge=0, description="duration of an unrecorded load before every measured run")
    limits: Limits = Field(Limits(), description="conditions for the end of a measured run")
    stop: StopRule = Field(StopRule(), description="the number of iterations that is sufficient")
    monitor: Monitor = Field(Monitor(), description="the sampled client")
    samplers: Samplers = Field(Samplers(), description="the recordings during the load")

    @field_validator("matrix")
    @classmethod
    def _known_workloads(cls, matrix: Matrix, info: ValidationInfo) -> Matrix:
        driver = info.data.get("driver")
        if driver is None:
            return matrix  # refused for another reason
        core = () if isinstance(driver, CommandDriver) else CORE_NAMES
        own = () if isinstance(driver, YcsbDriver) else tuple(driver.workloads)
        for workload in matrix.workloads:
            if workload not in (*core, *own):
                problem = f"{workload!r} is not a workload; known: {', '.join((*core, *own))}"
                raise _at("workloads", problem, matrix.workloads)
        for name, numbers in (("threads", matrix.threads), ("drivers", matrix.drivers)):
            if isinstance(numbers, dict) and (unknown := numbers.keys() - {*core, *own, "load", "run"}):
                problem = f"{min(unknown)!r} is neither a workload nor one of the phases load and run"
                raise _at(name, problem, numbers)
        return matrix

    def own_workload(self, name: str) -> OwnWorkload | None:
        """The entry of driver.workloads for a workload; None for a core workload."""
        return None if isinstance(self.driver, YcsbDriver) else self.driver.workloads.get(name)

    @model_validator(mode="after")
    def _commands_can_be_run(self) -> Experiment:
        if not isinstance(self.driver, CommandDriver):
            return self
        if any(self.matrix.monitored):
            raise ValueError("matrix.monitored: the command driver has no sampled client")
        timed = any("duration_s" in " ".join(self.driver.workloads[name].run) for name in self.matrix.workloads)
        if timed and self.limits.duration_s is None:
            raise ValueError("limits.duration_s: required, because a command uses {duration_s}")
        return self

    @model_validator(mode="after")
    def _inserts_of_several_ycsb_clients(self) -> Experiment:
        inserting = [workload for workload in self.matrix.workloads if workload in ("d", "e")]
        several = any(max(self.matrix.drivers_of(workload)) > 1 for workload in inserting)
        if isinstance(self.driver, YcsbDriver) and several:
            # Every YCSB client begins the inserts of its transactions at recordcount: two would insert the same keys.
            way_out = "write drivers: {load: [2], run: [2], d: [1], e: [1]}"
            raise ValueError(f"matrix.workloads: with YCSB, workloads d and e insert and need drivers: [1]; {way_out}")
        return self

    @model_validator(mode="after")
    def _fields_fit(self) -> Experiment:
        matrix = self.matrix
        if "monitor" in self.model_fields_set and "monitored" not in matrix.model_fields_set:
            raise ValueError("monitor: without matrix.monitored no run is sampled; set matrix.monitored: [true]")
        if any(min(matrix.threads_of(one)) < max(matrix.drivers_of(one)) for one in matrix.workloads):
            raise ValueError("matrix.threads: fewer threads than drivers; every load generator needs one")
        grows = isinstance(self.target, ClusterTarget) and self.target.growth == "rebalance"
        if grows and self.order == "interleaved":
            raise ValueError("target.growth: rebalance needs runs ordered by size; set order: study or sequential")
        return self


def _at(field: str, problem: str, value: object) -> ValidationError:
    """A refusal that names a field inside the one that is validated."""
    error = PydanticCustomError("value_error", "{problem}", {"problem": problem})
    return ValidationError.from_exception_data("Matrix", [InitErrorDetails(type=error, loc=(field,), input=value)])


def parse_experiment(document: Mapping[str, object], *, path: str | PathLike[str] | None = None) -> Experiment:
    """Validate an experiment given as a mapping.

    Raises:
        InputError: a field is unknown, missing or wrong; the message names the field and what is allowed.
    """
    # The description is prose: words in it that look like a secret are redacted when it is stored.
    stated = {name: value for name, value in document.items() if name != "description"}
    if redact_values(stated) != stated:
        raise InputError("holds a secret", path=path, way_out="remove it; set PGPASSWORD or PGPASSFILE instead")
    try:
        return Experiment.model_validate(document, context={FOLDER: Path(path).parent} if path else None)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        steps = [str(part) for part in first["loc"] if part not in TAGS]
        place = ".".join(steps) or "document"
        others = f"; {counted(error.error_count() - 1, 'further problem')}" if error.error_count() > 1 else ""
        problem = first["msg"].removeprefix("Value error, ")  # which pydantic puts before a validator's words
        way_out = "see docs/experiments.md for every field"
        raise InputError(f"{problem}{others}", path=path, place=f"field '{place}'", way_out=way_out) from error


def load_experiment(name_or_path: str | PathLike[str], changes: Mapping[str, str] | None = None) -> Experiment:
    """Read an experiment file, or a shipped experiment by its name (`laptop`, `laptop.yml`).

    Args:
        name_or_path: the file, or the name.
        changes: values instead of the file's: dotted field -> value in YAML.

    Raises:
        UsageError: a change names no field of the document.
        UnknownNameError: there is neither a file nor a shipped experiment of that name.
        InputError: the file is not valid.
    """
    path = Path(name_or_path)
    if not path.exists():
        folder = shipped("experiments")
        path = folder / f"{path.stem}.yml"
        if not path.exists() or Path(name_or_path).stem != str(name_or_path).removesuffix(".yml").split("/")[-1]:
            raise UnknownNameError("experiment file", str(name_or_path), [file.stem for file in folder.glob("*.yml")])
    try:
        # One byte more than allowed, so that too long files, and endless devices, are refused by their length.
        with path.open("rb") as file:
            document = parse_yaml(file.read(YAML_LIMIT_BYTES + 1))
    except OSError as error:
        raise InputError(f"cannot be read: {error}", path=path) from error
    except FormatError as error:
        way_out = "check the indentation"
        raise InputError(error.problem, path=path, place=error.place, way_out=way_out) from error
    if not isinstance(document, dict):
        raise InputError("is not a mapping of fields", path=path, way_out="see docs/experiments.md")
    return parse_experiment(changed_document(document, changes or {}), path=path)


def experiment_schema() -> dict[str, object]:
    """The JSON schema of experiment files, for use in editors."""
    return Experiment.model_json_schema()
