"""The Prefect flows. Importing this package sets numba's cache folder, before any kernel is imported."""

import sys

from dpbayes.markup.visible import visible
from tasks.kernel_cache import keep_kernels_private

if warning := keep_kernels_private():
    print(visible(warning), file=sys.stderr)
