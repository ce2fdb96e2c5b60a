"""Archives, next to a new version of an analysis, its comparison with the version before it."""

from dpbayes.crates.comparison import Version, build_comparison
from storage.files.archive import MANIFEST
from storage.files.archive_paths import comparison_path
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.publishing import on_record, version_before


def compare(anchored: AnchoredLedger, new: Version, *, same_period: bool) -> str | None:
    """The path of the comparison of an archived posterior, which is written if missing; None if there is none to make.

    There is none for the first version, and where the crate of the version before is not in this archive.
    """
    archive, place = anchored.archive, comparison_path(new.record)
    if archive.exists(f"{place}/{MANIFEST}"):
        return place
    keys = anchored.home.trusted()
    published = [each for each in on_record(anchored.ledger.of_kind("publish")) if each.publication.signed_by in keys]
    before = version_before(published, new.record["key"], same_period=same_period)
    if before is None or not archive.exists(f"{before.publication.path}/{MANIFEST}"):
        return None
    path = before.publication.path
    archive.write_folder(place, build_comparison(new, Version(path, archive.read_folder(path)), anchored.home.signer()))
    return place
