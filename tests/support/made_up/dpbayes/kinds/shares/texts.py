"""Shares of one column's levels, in words."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpbayes.kinds.counted import Counted
from dpbayes.kinds.texts import Declared, Group, Record, Texts
from dpbayes.markup.numbers import short
from dpbayes_core.privacy.mechanisms import MECHANISMS
from dpbayes_core.shares.release import SharesDesign, SharesRelease


class SharesTexts(Texts):
    """Noisy counts, and the share of each level."""

    what = "noisy counts of a column’s levels"
    parameter = "Share"
    parameters = "Shares"
    units = "on the scale from 0 to 1"

    def lines(self, release: SharesRelease) -> list[dict[str, Any]]:
        """One line a level."""
        scale = release.mechanism.scale
        pairs = zip(release.column.levels, release.values, strict=True)
        return [{"level": level, "value": value, "scale": scale} for level, value in pairs]

    def product(self, release: SharesRelease) -> str:
        """The column."""
        return f"Noisy counts of the levels of {release.column.name}"

    def declared(self, release: SharesRelease) -> tuple[Declared, ...]:
        """The column."""
        levels = ", ".join(release.column.levels)
        return (Declared(release.column.name, "counted", levels, "a count of each level"),)

    def applied(self, record: Record) -> str:
        """Noise on exact counts."""
        noise = MECHANISMS[record["mechanism"]["name"]].words
        return f"{noise} on exact counts of people, of a total epsilon of {record['mechanism']['epsilon']!r}."

    def foresight(self, design: SharesDesign, rows: int) -> tuple[tuple[str, str], ...]:
        """The noise on a share."""
        return (("Noise on a share", f"± {short(float(design.mechanism.deviations.max()) / rows, 2)}"),)

    def title(self, release: SharesRelease) -> str:
        """The column."""
        return f"Shares of {release.column.name}"

    def lede(self, release: SharesRelease) -> str:
        """What was inferred."""
        return "The share of each level"

    def model(self, release: SharesRelease) -> str:
        """Counts and shares."""
        return f"counts of {release.column.name} = shares of the population"

    def prior(self, prior: Record) -> str:
        """Uniform."""
        return f"{prior['law']} over all shares that add up to one"

    def meanings(self, release: SharesRelease) -> Mapping[str, str]:
        """What each share says."""
        return dict.fromkeys(release.column.levels, f"of {release.column.name}")

    def groups(self, release: SharesRelease, names: Sequence[str]) -> tuple[Group, ...]:
        """All on one axis."""
        return (Group(release.column.name, "share of people", tuple(names), True, True),)

    def reading(self, release: SharesRelease) -> str:
        """How to read a share."""
        return "Each share is the probability of a level in the population. "

    def noise(self, release: SharesRelease, counted: Counted) -> tuple[str, ...]:
        """Of one count."""
        deviation = short(float(release.mechanism.deviations.max()), 2)
        return (f"Every count carries noise with a standard deviation of {deviation}.",)

    def noise_pairs(self, release: SharesRelease) -> tuple[tuple[str, str], ...]:
        """Mechanism, sensitivity and scale."""
        mechanism = release.mechanism
        return (
            ("Mechanism", f"{mechanism.words}, drawn independently for each count"),
            ("Sensitivity", f"{short(mechanism.sensitivity)} in {mechanism.norm}"),
            ("Scale", short(mechanism.scale)),
        )

    def noise_size(self, release: SharesRelease) -> tuple[str, str, str]:
        """On a count."""
        return "Noise on a count", f"± {short(float(release.mechanism.deviations.max()), 2)}", "people"


SHARES = SharesTexts()
