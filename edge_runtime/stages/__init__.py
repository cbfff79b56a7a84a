"""The stage kinds of a manifest, one file each: its keys, its check, what it compiles to, its price and capacity.

A mechanism operation is a stage kind too. A name is the word of ``stage``, and after a space that of ``op`` or
``distribution`` where a stage has several. No package adds one: a kind of value that a runtime does not check would
leave unperturbed.
"""

from typing import Any, Dict, List, Mapping, Tuple

from edgeveil.edge_runtime.registry import Registry

STAGES = Registry("edgeveil.edge_runtime.stages", key="name", word="stage")


def choices() -> Dict[str, str]:
    """For each word of ``stage``, the key that picks one of several; "" where there is one."""
    return {name.partition(" ")[0]: kind.facts["chooses"] for name, kind in STAGES.kinds().items()}


def kind_of(stage: Mapping[str, Any]) -> Any:
    """The kind of a stage of a manifest's JSON, a ``stages.base.Kind``. Raises ``BadInput`` where there is none."""
    return STAGES[name_of(stage)].load()()


def name_of(stage: Mapping[str, Any]) -> str:
    """The kind of a stage of a manifest's JSON, whose keys are there."""
    return " ".join([stage["stage"]] + [stage[key] for key in ("op", "distribution") if stage.get(key)])


def reads_and_writes(stage: Mapping[str, Any]) -> Tuple[List[str], List[str]]:
    """The names of the values that a stage of a manifest's JSON reads, and of those that it makes."""
    if "inputs" in stage:
        return list(stage["inputs"].values()), list(stage["outputs"].values())
    noise = stage.get("noise", [])
    named = [stage[key] for key in ("input", "group", "by") if key in stage]
    return named + ([noise] if isinstance(noise, str) else list(noise)), [stage["output"]]
