"""Command: citus-analysis publish."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from citus_analysis.cli.options import AS_JSON, PLACE
from citus_analysis.cli.output import print_result


@click.command("publish")
@click.argument("dataset", metavar="DATASET", type=PLACE)
@click.option("--to", required=True, metavar="URL", help="postgresql://USER@HOST/DATABASE, without a password.")
@click.option("--tables", multiple=True, metavar="NAMES", help="Only these, split by commas. Default: all.")
@click.option("--schema", default="citus_analysis", show_default=True, metavar="NAME", help="Schema of the database.")
@click.option("--dry-run", is_flag=True, help="Only print the definitions; do not connect.")
@AS_JSON
def command(dataset: Path | str, to: str, tables: tuple[str, ...], schema: str, dry_run: bool, as_json: bool) -> None:
    """Bring tables in PostgreSQL up to date with a dataset, in one transaction.

    Parts of tables that are unchanged since the last publication are not sent. The password comes from PGPASSWORD, a
    password file or a service file. If the extension citus exists, tables are distributed by run_id.
    """
    from citus_analysis.cli.options import parse_column_names
    from citus_analysis.dataset import open_dataset
    from citus_analysis.publish.publishing import (
        choose_tables,
        publish_dataset,
        require_no_password,
        write_definition_statements,
    )

    require_no_password(to)
    chosen = choose_tables(parse_column_names(tables))
    if dry_run:
        for statement in write_definition_statements(schema, chosen):
            click.echo(statement if statement.startswith("--") else f"{statement};")
        return
    published = publish_dataset(open_dataset(dataset), to, tables=chosen, schema=schema)
    print_result(asdict(published) if as_json else str(published))
