"""JSON values against the JSON schemas of specs/."""

from __future__ import annotations

import re


def violations(value, schema: dict, root: dict, place: str = "$") -> list[str]:
    """What is wrong with `value`, by the keywords that our schema uses; any other keyword is an error."""
    schema = {k: v for k, v in schema.items() if k not in ("$schema", "$defs", "title", "description")}
    if "$ref" in schema:
        return violations(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, place)
    types = {"null": type(None), "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    found = []
    for keyword, rule in schema.items():
        if keyword == "type":
            good = isinstance(value, types[rule]) and (rule == "boolean" or not isinstance(value, bool))
            if not good:
                return [f"{place} is no {rule}"]
        elif keyword == "const":
            found += [] if value == rule else [f"{place} is not {rule!r}"]
        elif keyword == "enum":
            found += [] if value in rule else [f"{place} is none of {rule}"]
        elif keyword == "pattern":
            found += [] if re.search(rule, value) else [f"{place} does not match {rule}"]
        elif keyword == "minimum":
            found += [] if value >= rule else [f"{place} is below {rule}"]
        elif keyword in ("minItems", "minLength"):
            found += [] if len(value) >= rule else [f"{place} is too short"]
        elif keyword == "maxItems":
            found += [] if len(value) <= rule else [f"{place} is too long"]
        elif keyword == "required":
            found += [f"{place}.{key} is missing" for key in rule if key not in value]
        elif keyword == "properties":
            for key in rule.keys() & value.keys():
                found += violations(value[key], rule[key], root, f"{place}.{key}")
        elif keyword == "additionalProperties":
            for key in value.keys() - schema.get("properties", {}).keys():
                found += violations(value[key], rule, root, f"{place}.{key}") if rule else [f"{place}.{key} is unknown"]
        elif keyword == "items":
            for i, item in enumerate(value):
                found += violations(item, rule, root, f"{place}[{i}]")
        elif keyword == "anyOf":
            if all(violations(value, one, root, place) for one in rule):
                found.append(f"{place} is none of the alternatives")
        else:
            raise AssertionError(f"the schema uses {keyword!r}, which this check does not know")
    return found
