"""A charge during whose commit all packets are lost; run in a network of its own by `unshare --net`."""

import json
import shutil
import subprocess
import threading
import time

import psycopg

from dpbayes_core.errors import DpbayesError
from storage.ledger.ledger import Ledger
from tests.support.ledger_cases import STAMP, account, commit, laplace, request
from tests.support.postgres import Server, binaries, new_folder

SLOW_COMMIT = """
CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(200); RETURN NEW; END $$;
CREATE CONSTRAINT TRIGGER slowly AFTER INSERT ON entry DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
EXECUTE FUNCTION slowly()
"""


def loopback(state: str) -> None:
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


def charge(place: str) -> tuple[str, float]:
    """The error of a charge whose commit is never answered, and after how many seconds."""
    Ledger.create(place, STAMP).dispose()
    with Ledger.open(place) as ledger:
        ledger.open_account(account(), STAMP)
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute(SLOW_COMMIT)
        threading.Timer(3, loopback, ["down"]).start()
        began = time.monotonic()
        try:
            commit(ledger, request(), laplace(0.1))
        except DpbayesError as failure:
            return str(failure), time.monotonic() - began
    return "charged", time.monotonic() - began


if __name__ == "__main__":
    loopback("up")
    folder, programs = new_folder(), binaries()
    assert programs is not None
    server = Server(folder, programs)
    server.start()
    print(json.dumps(charge(server.new_database())))
    server.kill()
    shutil.rmtree(folder)
