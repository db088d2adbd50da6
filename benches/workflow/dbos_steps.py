"""Steps of DBOS workflows, one for each client, with the SQLite system database. Prints the seconds."""

import logging
import os
import sys
import time

from dbos import DBOS, DBOSConfig

logging.disable(logging.CRITICAL)
path, steps, clients = os.path.abspath(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
config: DBOSConfig = {
    "name": "steps",
    "system_database_url": f"sqlite:///{path}",
    "run_admin_server": False,
}
DBOS(config=config)


@DBOS.step()
def step(number: int) -> str:
    return "x" * 200


@DBOS.workflow()
def work(count: int) -> float:
    started = time.perf_counter()
    for number in range(count):
        step(number)
    return time.perf_counter() - started


DBOS.launch()
if clients == 1:
    print(work(steps))
else:
    started = time.perf_counter()
    for handle in [DBOS.start_workflow(work, steps) for _ in range(clients)]:
        handle.get_result()
    print(time.perf_counter() - started)
sys.stdout.flush()
DBOS.destroy()
