"""Where chains over latent tables begin: integer tables near the noisy ones, apart by about the noise."""

from dataclasses import replace

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.networks.posterior.clusters import Clusters
from dpbayes_core.networks.posterior.evidence import Evidence, estimated_table, places_in

FITS = 30  # passes of proportional fitting
SPREAD = 2.0  # times the noise
LEAST = 1e-3  # of a record, in every cell: proportional fitting cannot leave zero


def shaken(evidence: Evidence, generator: np.random.Generator) -> Evidence:
    """The evidence with more noise of its own kind: starts are further apart than draws will be."""
    tables = (
        replace(table, counts=table.counts + generator.laplace(0.0, SPREAD * table.scale, table.counts.shape))
        for table in evidence.tables
    )
    signs = (
        replace(sign, value=sign.value + float(generator.laplace(0.0, SPREAD * sign.scale))) for sign in evidence.signs
    )
    return replace(evidence, tables=tuple(tables), signs=tuple(signs))


def start_cells(evidence: Evidence, clusters: Clusters, most_rows: int, generator: np.random.Generator) -> Floats:
    """Tables of whole records, one cluster after the other, that agree where clusters meet."""
    near = shaken(evidence, generator)
    families = [(family, estimated_table(near, family)) for family in evidence.families]
    rows = _rows(evidence, [table.sum() for _, table in families], most_rows)
    made: list[Floats] = []
    for cluster, own in enumerate(clusters.nodes):
        shared = clusters.separator(cluster)
        before = clusters.before[cluster]
        given = np.array([float(rows)])
        if before >= 0:
            there = clusters.nodes[before]
            given = np.bincount(places_in(evidence, there, shared), made[before], evidence.cells(shared)).astype(
                np.float64
            )
        fitted = np.full(evidence.cells(own), rows / evidence.cells(own) + LEAST)
        inside = [
            (places_in(evidence, own, family), np.maximum(table, 0.0) + LEAST)
            for family, table in families
            if set(family) <= set(own)
        ]
        for _ in range(FITS if len(inside) > 1 else 1):
            for places, table in inside:
                fitted *= (table / np.bincount(places, fitted, len(table)))[places]
        made.append(_whole(fitted, places_in(evidence, own, shared), given))
    return np.concatenate(made)


def _rows(evidence: Evidence, totals: list[float], most_rows: int) -> int:
    if evidence.rows is not None:
        return evidence.rows
    return int(min(max(round(float(np.median(totals))), 0), most_rows))


def _whole(fitted: Floats, places: Integers, given: Floats) -> Floats:
    """Whole records in proportion to `fitted`, as many in each part as given, by the largest remainders."""
    found = np.zeros(len(fitted))
    for part, count in enumerate(given):
        cells = np.flatnonzero(places == part)
        share = fitted[cells] * (count / fitted[cells].sum())
        found[cells] = np.floor(share)
        missing = round(count - found[cells].sum())
        last = cells[np.argsort(np.floor(share) - share, kind="stable")]
        found[last[:missing]] += 1.0
    return found
