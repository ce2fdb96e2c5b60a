"""A flow of ours as a deployment names it."""

from typing import Any

from prefect import Flow
from prefect.utilities.callables import parameter_schema

from tasks.deployments.wanted import Entry


def entry(flow: Flow[..., Any]) -> Entry:
    """The name, the place and the parameters of a flow."""
    place = f"{flow.fn.__module__}.{flow.fn.__name__}"
    return Entry(flow=flow.name, entrypoint=place, schema=parameter_schema(flow).model_dump(mode="json"))
