"""Makes the wages study, runs one period of it and prints the result; `make demo` runs it."""

import json
import subprocess
import sys
from decimal import ROUND_DOWN, Context, Decimal
from pathlib import Path
from typing import Any

FOLDER = Path("demo/wages")
PERIOD = "2026-01"
DPBAYES = (sys.executable, "-m", "cli")


def main() -> int:
    """Create the study once, run one period, print the result."""
    if not FOLDER.exists():
        print("Making the wages study with synthetic data for 50,000 people ...", flush=True)
        subprocess.run([*DPBAYES, "init", str(FOLDER)], check=True, stdout=subprocess.DEVNULL)
    study = str(FOLDER / "study.yaml")
    print(f"dpbayes run {study} --period {PERIOD}", flush=True)
    done = subprocess.run([*DPBAYES, "run", study, "--period", PERIOD, "--json"], stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 6):
        print(done.stdout)
        return done.returncode
    print_result(json.loads(done.stdout), json.loads((FOLDER / "data" / "truth.json").read_text()))
    return done.returncode


def print_result(result: dict[str, Any], truth: dict[str, float]) -> None:
    """Print what was released, its cost, what remains, the posterior next to the true values, and the report's path."""
    print()
    for release in result["releases"]:
        _print_release(release, result["period"])
    for analysis in result["analyses"]:
        _print_analysis(analysis, truth)


def _print_release(release: dict[str, Any], period: str) -> None:
    if release["status"] == "released":
        cost = release["cost"]
        counted = "one of them is the number of people" if release["rows"] is None else f"of {release['rows']:,} people"
        print(f"Released: {release['release']} for {period}, {release['numbers']} noisy statistics; {counted}.")
        print(
            f"Cost: epsilon {cost['epsilon']} at delta {cost['delta']} (rho {cost['rho']:.6f}), charged once. "
            "The budget now:"
        )
    else:
        print(f"Already released: {release['release']} for {period}. This run spent nothing. The budget now:")
    for cap in release["caps"]:
        window = f"{cap['cap']} {cap['period'] or ''}".strip()
        more = f"room for one more release of up to {_down(cap['remaining'])}"
        print(f"  {window:<28} epsilon {cap['limit']:<4g} spent {cap['spent']:<6g} {more}")
    print(f"Crate of the release: {release['crate']}")


def _print_analysis(analysis: dict[str, Any], truth: dict[str, float]) -> None:
    print()
    if analysis["status"] == "converged":
        print(
            f"Posterior from the noisy statistics (sampler {analysis['sampler']}, the chains converged), "
            "next to the true values behind the synthetic data:"
        )
    else:
        print(f"NOT CONVERGED: {analysis['why']} Do not use these numbers.")
    print(f"  {'coefficient':<20}{'mean':>10}{'95% interval':>24}{'true':>10}")
    for row in analysis["coefficients"]:
        interval = f"{row['q025']:.4f} to {row['q975']:.4f}"
        print(f"  {row['name']:<20}{row['mean']:>10.4f}{interval:>24}{truth[row['name']]:>10.4f}")
    print(f"Report: {analysis['report']}")


def _down(value: float) -> str:
    """The number with four digits, rounded down."""
    return f"{Context(prec=4, rounding=ROUND_DOWN).create_decimal(Decimal(value)).normalize():f}"


if __name__ == "__main__":
    sys.exit(main())
