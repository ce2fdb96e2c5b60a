"""A release whose process is killed when noise is drawn for the nth time: `dying_release.py STUDY RELEASE NTH`."""

import sys

from dpbayes_core.privacy.noise import OpenDPNoise
from tasks.orders import ReleaseOrder
from tasks.release_statistics import release_once
from tests.support.desk import PERIOD
from tests.support.killed import before

if __name__ == "__main__":
    study, release, nth = sys.argv[1:]
    before(OpenDPNoise, "gaussian", nth=int(nth))
    release_once(ReleaseOrder(study=study, release=release, period=PERIOD), OpenDPNoise())
