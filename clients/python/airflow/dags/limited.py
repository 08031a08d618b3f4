"""The DAGs of test_airflow.py."""

from __future__ import annotations

import os

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

import lockhouse
from lockhouse.airflow import LimitedPythonOperator


def look(semaphore: str) -> list[str | None]:
    return [it.owner for it in lockhouse.Client().holders(semaphore)]


with DAG("limited", schedule=None):
    LimitedPythonOperator(task_id="held", permits={"gpu": 1}, ttl=60, python_callable=look, op_args=["gpu"])

with DAG("plain", schedule=None):
    PythonOperator(task_id="plain", python_callable=os.getpid)
