"""What is run: the flows and the command. Where kernels are kept is settled before any of them is imported."""

import sys

from dpbayes.markup.visible import visible
from tasks.kernel_cache import keep_kernels_private

if told := keep_kernels_private():
    print(visible(told), file=sys.stderr)
