"""The noisy release that a charge is to pay for: drawn only where its noise protects, for the right neighbours."""

from typing import Any

from dpbayes_core.errors import DpbayesError, StudyInvalid
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.release import AnyRelease, Design
from storage.ledger.charging import covers_rows, is_as_defined
from storage.ledger.request import Request, priced_under


def drawn(request: Request, design: Design, exact: Any, noise: NoiseSource) -> AnyRelease:
    """A release with fresh noise; refused where the noise is for tests, or for less than the statistics can move."""
    if not noise.trusted:
        raise DpbayesError(
            f"cannot charge {request.release}: its noise source is for tests and protects nobody. Use OpenDP's noise."
        )
    account = request.account
    refuse_relation(request, design, priced_under(account.neighbours, account.membership, request.holder))
    release = design.release(noise, exact)
    sound = release.mechanism == design.mechanism and release.neighbours == design.neighbours and release.protected
    if not (sound and covers_rows(release, account.max_rows_per_unit)):
        raise DpbayesError(
            f"cannot charge {request.release}: its noise is made for less than its statistics can move. "
            "Calibrate it to the schema's sensitivity; nothing was spent."
        )
    if not is_as_defined(request.definition, release):
        raise DpbayesError(
            f"cannot charge {request.release}: it is of other columns, other rows or other steps than its request "
            "states. Nothing was spent; report this, it is a fault of the program."
        )
    return release


def refuse_relation(request: Request, design: Design, neighbours: str) -> None:
    """Refuse noise that is made for other neighbours than the account is kept for."""
    if neighbours != design.neighbours:
        raise StudyInvalid(
            f"cannot charge {request.release}: its noise is made for {design.neighbours} neighbours, and its account "
            f"is kept for {neighbours}. State {neighbours} neighbours, and holders whose people do not move."
        )
