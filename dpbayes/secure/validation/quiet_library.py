"""Silences Great Expectations: nothing that it prints or logs reaches the terminal or a log."""

import io
import logging
import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


@contextmanager
def quiet_library() -> Generator[None]:
    """No warning, log line, progress bar or print of the library reaches the terminal or another log."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read when the library loads
    logger = logging.getLogger("great_expectations")
    before = logger.propagate, logger.handlers[:]
    logger.propagate, logger.handlers = False, [logging.NullHandler()]
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.propagate, logger.handlers = before
