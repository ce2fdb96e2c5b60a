"""Batches through a pool of threads, however many there are: a stream is read no faster than it is summed."""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def each_in_threads(items: Iterable[T], work: Callable[[T], R], workers: int, done: Callable[[T], None]) -> list[R]:
    """Results in the order of the items; `done` hears each item; the first failure stops what has not begun.

    Items are drawn in the calling thread, and at most twice as many as workers are held at a time.
    """
    results: dict[int, R] = {}
    waiting: dict[Future[R], tuple[int, T]] = {}

    def take(at_most: int) -> None:
        while len(waiting) > at_most:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                place, item = waiting.pop(future)
                results[place] = future.result()
                done(item)

    with ThreadPoolExecutor(max_workers=workers) as pool:
        try:
            for place, item in enumerate(items):
                waiting[pool.submit(work, item)] = place, item
                take(2 * workers - 1)
            take(0)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [results[place] for place in range(len(results))]
