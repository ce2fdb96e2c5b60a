"""Every benchmark, or only those named: `python -m bench ledger`."""

import sys
from importlib import import_module

BENCHMARKS = (
    *("commands", "ledger", "data_plane", "subsample", "networks", "gibbs", "collapsed", "audit", "runs"),
    "overhead",
)


def main(*wanted: str) -> None:
    """Run them in turn; each is imported just before, so that no measurement includes another's imports."""
    for name in wanted or BENCHMARKS:
        import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main(*sys.argv[1:])
