"""From what the study declares to the batches of its table, whatever keeps it."""

from dataclasses import replace

from dpbayes.secure.sources.batch import Layout
from dpbayes.study.table_source import TableSource
from dpbayes_core.errors import ShapeMismatch


def lay_out(source: TableSource) -> Layout:
    """Check the declared shape without looking at a value, and say where the batches are; `ShapeMismatch` otherwise."""
    if source.holders is not None and source.holders.paths:
        from dpbayes.secure.sources.by_holder import lay_out_holders

        return lay_out_holders(source, source.holders, lay_out)
    if source.query is not None:
        from dpbayes.secure.sources.sql import lay_out_query

        return lay_out_query(source, source.query)
    from dpbayes.secure.sources.csv import is_csv, lay_out_csv
    from dpbayes.secure.sources.files import files_of
    from dpbayes.secure.sources.parquet import lay_out_parquet

    files = files_of(source)
    delimited = [is_csv(file.name) for file in files]
    if any(delimited) and not all(delimited):
        raise ShapeMismatch(
            f"cannot read table {source.name}: some of its files are CSV and others are not. Write all files alike."
        )
    layout = lay_out_csv(source, files) if delimited and delimited[0] else lay_out_parquet(source, files)
    known = [file.identity for file in files]
    return replace(layout, unchanged=lambda: [file.identity for file in files_of(source)] == known)
