"""A plan as the spec that has it alone, with every decision fixed."""

from __future__ import annotations

from typing import Any

from gemmgen.plan import Plan
from gemmgen.spec import LoadedSpec


def settled_spec(loaded: LoadedSpec, plan: Plan) -> dict[str, Any]:
    """The sections of a spec whose one plan is this one, with names of files from the root on."""
    spec = loaded.spec.model_dump(mode="json", exclude_defaults=True)
    for section in ("accuracy", "solve"):
        spec.pop(section, None)
    sections = {one.name: one.section for one in plan.design.decisions}
    for name, value in plan.decided.items():
        spec.setdefault(sections[name], {})[name] = list(value) if isinstance(value, tuple) else value
    spec.setdefault("split", {})["scheme"] = _from_root(loaded, loaded.spec.split.scheme if _is_file(loaded.spec.split.scheme) else plan.scheme.name)
    spec.setdefault("target", {})["gpu"] = _from_root(loaded, loaded.spec.target.gpu or plan.gpu.name)
    spec.setdefault("fragment", {})["policy"] = plan.fragment.policy
    spec.setdefault("pipeline", {})["design"] = plan.design.name
    return spec


def _is_file(name: str) -> bool:
    return name.endswith(".toml")


def _from_root(loaded: LoadedSpec, name: str) -> str:
    return str((loaded.folder / name).resolve()) if _is_file(name) and loaded.folder else name
