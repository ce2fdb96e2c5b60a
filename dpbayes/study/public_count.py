"""What a study publishes without noise by choosing its rows: how many its query finds."""

from dpbayes.study.study import Study


def query_words(study: Study) -> str | None:
    """That the size of the query's answer is public, and with it that of what it filters by; None where it is not."""
    from dpbayes_core.regression.sensitivity.box import count_is_public

    most = study.source.max_rows_per_unit
    counted = [name for name, spec in study.releases.items() if spec.publishes_count and not spec.complete]
    if study.source.query is None or not any(count_is_public(study.design(name).neighbours, most) for name in counted):
        return None
    what = "rows" if study.source.unit is None else "people"
    return (
        f"how many {what} the query finds is published as it is, in every period. A condition in it on anything but "
        "the period, such as a sector, publishes how many meet it, and whether somebody does is not protected."
    )
