"""What a scenario may need of the server that not every server has. Its OpenAPI document tells.

This is the only reason for which a scenario may be left out.
"""


def _has_path(path):
    return lambda api: path in api["paths"]


def _has_prefix(api):
    for parameter in api["paths"]["/v1/semaphores"]["get"].get("parameters", []):
        if "$ref" in parameter:
            parameter = api["components"]["parameters"][parameter["$ref"].rsplit("/")[-1]]
        if parameter["name"] == "prefix":
            return True
    return False


NEEDS = {
    "line": _has_path("/v1/semaphores/{name}/waiting"),
    "prefix": _has_prefix,
    "slots": lambda api: "slots" in api["components"]["schemas"]["Define"]["properties"],
    "templates": _has_path("/v1/templates/{pattern}"),
    "tokens": _has_path("/v1/tokens"),
}


def missing(scenario, api):
    """What the scenario needs and the server does not have."""
    needs = scenario.get("needs", [])
    unknown = [need for need in needs if need not in NEEDS]
    if unknown:
        raise SystemExit(f"{scenario['name']} needs {unknown}, which is not in harness/needs.py")
    return [need for need in needs if not NEEDS[need](api)]
