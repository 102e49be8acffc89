"""Writes src/mainstay_mcp/api.py from the OpenAPI document of a daemon: python generate_api.py OPENAPI.json > src/mainstay_mcp/api.py"""

from __future__ import annotations

import json
import re
import sys
from keyword import iskeyword
from typing import Any

ROOTS = ("ProgramStatus", "ServerStatus", "EventRecord", "ApiProblem")

HEAD = '''"""What the control API answers. Written by generate_api.py from the OpenAPI document; do not edit.

A later version of the program may send more keys and more words than are named here. Absent values are `None`.
"""

from __future__ import annotations

from typing import TypedDict
'''

# What the stream of events adds to the record of the document.
OF_THE_STREAM = {
    "id": {"type": "string", "description": "Where to continue: `events(after=…)`. The event `lagged` has none."},
    "type": {"enum": ["lagged"]},
}


def reference(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rsplit("/", 1)[1]


def properties(schemas: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """All properties of a schema, those of its parts and of its variants together."""
    if "$ref" in schema:
        schema = schemas[reference(schema)]
    merged: dict[str, Any] = {}
    parts = [properties(schemas, part) for key in ("allOf", "oneOf") for part in schema.get(key, [])]
    for part in [*parts, schema.get("properties", {})]:
        for name, value in part.items():
            if name in merged and "enum" in value and "enum" in merged[name]:
                words = merged[name]["enum"] + [word for word in value["enum"] if word not in merged[name]["enum"]]
                value = {**merged[name], "enum": words}
            elif name in merged and kind(schemas, merged[name]) != kind(schemas, value):
                value = {}
            merged[name] = value
    return merged


def kind(schemas: dict[str, Any], schema: dict[str, Any]) -> str:
    """The Python type of a schema."""
    if "$ref" in schema:
        name = reference(schema)
        target = schemas[name]
        return name if "properties" in target or "allOf" in target else kind(schemas, target)
    if "oneOf" in schema:
        parts = [kind(schemas, part) for part in schema["oneOf"]]
        some = [part for part in parts if part != "None"]
        if len(some) != 1:
            return "object"
        return f"{some[0]} | None" if len(parts) > 1 else some[0]
    if "enum" in schema:
        # Not a `Literal`: later versions may have more words.
        return "str"
    found = schema.get("type")
    if isinstance(found, list):
        (some_type,) = [each for each in found if each != "null"]
        return f"{kind(schemas, {**schema, 'type': some_type})} | None"
    if found == "array":
        return f"list[{kind(schemas, schema['items'])}]"
    plain = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
    return plain.get(str(found), "object")


def main(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        schemas = json.load(file)["components"]["schemas"]
    schemas["EventRecord"]["allOf"] += [{"properties": OF_THE_STREAM}, {"$ref": "#/components/schemas/LagMarker"}]
    written: dict[str, str] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop(0)
        if name in written:
            continue
        members = sorted(properties(schemas, schemas[name]).items())
        keywords = {member: kind(schemas, schema) for member, schema in members if iskeyword(member)}
        base = "TypedDict"
        lines: list[str] = []
        if keywords:
            # A keyword cannot be the name of a class's member.
            base = f"_KeywordsOf{name}"
            inner = ", ".join(f'"{member}": {type_}' for member, type_ in keywords.items())
            lines += [f'{base} = TypedDict("{base}", {{{inner}}}, total=False)', "", ""]
        lines += [f"class {name}({base}, total=False):", f'    """{schemas[name].get("description", name)}"""', ""]
        for member, schema in members:
            type_ = kind(schemas, schema)
            if member not in keywords:
                lines.append(f"    {member}: {type_}")
            waiting += [word for word in re.findall(r"\w+", type_) if word in schemas]
        written[name] = "\n".join(lines)
    body = "\n\n\n".join(written[name] for name in sorted(written))
    print(f"{HEAD}\n\n{body}")


if __name__ == "__main__":
    main(sys.argv[1])
