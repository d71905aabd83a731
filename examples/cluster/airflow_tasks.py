"""Tasks of a plan in Airflow 2.3 or newer: each partition is a mapped task, which Airflow runs again after a failure.

All workers see /data. Exit code 75 means that trying again may help, and so it may for a process that was killed, for want of
memory or because its machine is drained. After any other failure it does not.
"""

import json
import subprocess
from datetime import datetime, timedelta

from airflow.decorators import dag, task
from airflow.exceptions import AirflowException, AirflowFailException

PLAN = "/data/train.tfrplan"
QUERY = "SELECT * FROM '/data/events/'"
OPTIONS = ["--out", "/data/train", "--shuffle", "--seed", "7", "--shards", "256", "--partitions", "64"]


def tfr_sql(*arguments: str) -> None:
    code = subprocess.run(["tfr-sql", *arguments], check=False).returncode
    # Negative: ended by a signal. A shell between reports 128 and the signal.
    if code == 75 or code < 0 or code > 128:
        raise AirflowException(f"tfr-sql {arguments[0]} ended with exit code {code}: try again")
    if code != 0:
        raise AirflowFailException(f"tfr-sql {arguments[0]} ended with exit code {code}")


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1),
    default_args={"retries": 4, "retry_delay": timedelta(minutes=1)},
)
def train():
    @task(retries=0)
    def plan() -> list[int]:
        tfr_sql(QUERY, *OPTIONS, "--plan", PLAN)
        # The first line of a plan is JSON.
        with open(PLAN, "rb") as file:
            return list(range(json.loads(file.readline())["tasks"]))

    @task
    def sort(index: int) -> None:
        tfr_sql("task", PLAN, "--index", str(index))

    @task
    def cut(tasks: list[int]) -> list[int]:
        tfr_sql("cut", PLAN)
        return tasks

    @task
    def write(index: int) -> None:
        tfr_sql("task", PLAN, "--index", str(index))

    @task
    def finish() -> None:
        tfr_sql("finish", PLAN)

    tasks = plan()
    decided = cut(tasks)
    sort.expand(index=tasks) >> decided
    write.expand(index=decided) >> finish()


train()
