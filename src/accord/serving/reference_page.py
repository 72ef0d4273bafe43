"""The page /docs: the OpenAPI document for people, without a script, so that it works offline."""

from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def reference_page(document: Mapping[str, Any]) -> str:
    """All addresses of an OpenAPI document, with their fields and answers."""
    loader = PackageLoader("accord.serving")
    made = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True
    ).get_template("reference.html.j2")
    return made.render(**document["info"], ways=list(_ways(document["paths"])))


def _ways(paths: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for path, methods in paths.items():
        for method, way in methods.items():
            content = way.get("requestBody", {}).get("content", {})
            body: dict[str, Any] = next((one["schema"] for one in content.values()), {})
            yield {
                "path": path,
                "method": method.upper(),
                "summary": way["summary"],
                "kinds": list(content),
                "fields": [*_parameters(way.get("parameters", ())), *_fields(body)],
                "answers": [(code, x["description"]) for code, x in way["responses"].items()],
            }


def _parameters(parameters: Any) -> Iterator[dict[str, str]]:
    for parameter in parameters:
        yield _field(parameter["name"], parameter["schema"], parameter["required"])


def _fields(schema: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for name, field in schema.get("properties", {}).items():
        yield _field(name, field, name in schema.get("required", ()))


def _field(name: str, schema: Mapping[str, Any], required: bool) -> dict[str, str]:
    default = schema.get("default")
    return {
        "name": name,
        "type": _type(schema),
        "default": "required" if required else "" if default is None else str(default),
        "text": " ".join(schema.get("description", "").split()),
    }


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"] if value is not None)
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return str(schema.get("format") or schema.get("type", ""))
