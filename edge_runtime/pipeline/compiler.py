"""Compiles the stages of a manifest to functions, checks their order and splits them around the model."""

from typing import Any, List, NamedTuple, Optional, Set, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest, Stage
from edgeveil.edge_runtime.stages import kind_of, reads_and_writes
from edgeveil.edge_runtime.stages.artefact import ModelStage
from edgeveil.edge_runtime.stages.base import Run

Step = Tuple[Run, Optional[Tuple[str, Tuple[int, ...]]]]  # a compiled stage; of a draw, its output and shape


class Program(NamedTuple):
    """Compiled stages before the model, the model, and after it; and the names of all their values.

    Where an epsilon is promised, ``uncovered`` names the values that are of the reading itself, and ``noise`` has the
    stages that make all others.
    """

    before: List[Step]
    middle: List[Step]
    after: List[Step]
    made: Set[str]
    noise: List[Step]
    uncovered: Set[str]


def compile_stages(manifest: Manifest, context: Any) -> Program:
    """The stages in order; ``context`` as in ``compile_stage``. Raises ``BadInput`` if they do not fit together.

    Without a model, and for a stream, all stages are the middle: the memory of tracks needs one thread, in order. Where
    an epsilon is promised, that is the last one: hold stages and reports come after every model that reads x.
    """
    steps: List[Step] = []
    known = {manifest.input.name}
    for stage in manifest.stages:
        reads, writes = reads_and_writes(stage.entry)
        missing, again = [n for n in reads if n not in known], [n for n in writes if n in known]
        if missing or again:
            raise BadInput(
                "the stage {!r} {} {!r}: every value is made once, before it is used".format(
                    stage.stage, "uses" if missing else "makes a second", (missing or again)[0]
                )
            )
        known.update(writes)
        drawn = (stage.output, stage.shape) if stage.stage == "draw" else None
        steps.append((compile_stage(stage, context), drawn))
    computed = known - {manifest.input.name}
    if manifest.spending is not None:
        return _promising(manifest, steps, computed)
    models = [place for place, (run, _) in enumerate(steps) if isinstance(run, ModelStage)]
    if manifest.stream is not None or not models:
        return Program([], steps, [], computed, [], set())
    before, middle, after = steps[: models[0]], steps[models[0] : models[-1] + 1], steps[models[-1] + 1 :]
    model = middle[0][0]
    if len(middle) > 1 or not isinstance(model, ModelStage):
        return Program(before, middle, after, computed, [], set())
    # One model: the conversions of its tensors can run on the neighbouring threads.
    before, after = before + [(model.preprocess, None)], [(model.postprocess, None)] + after
    return Program(before, [(model.infer, None)], after, computed, [], set())


def _promising(manifest: Manifest, steps: List[Step], made: Set[str]) -> Program:
    """The program of a manifest with a promise."""
    from edgeveil.edge_runtime.manifest.spending import covered_values

    stages, reports = manifest.stages, covered_values(manifest.document["stages"])
    writes = [reads_and_writes(stage.entry)[1] for stage in stages]
    of_x = [not kind_of(one.entry).held and not reports.issuperset(makes) for one, makes in zip(stages, writes)]
    noise = [step for step, is_of_x in zip(steps, of_x) if not is_of_x]
    uncovered = {name for names, is_of_x in zip(writes, of_x) if is_of_x for name in names}
    uncovered.add(manifest.input.name)
    models = [place for place, stage in enumerate(stages) if stage.model and of_x[place]]
    end = models[-1] + 1 if models else 0
    shared = {stages[place].model for place in models} & {stage.model for stage in stages[end:] if stage.model}
    if shared or any(kind_of(stage.entry).held for stage in stages[:end]):
        end = 0  # one thread for all
    first = models[0] if end else 0
    return Program(steps[:first], steps[first:end], steps[end:], made, noise, uncovered)


def compile_stage(stage: Stage, context: Any) -> Run:
    """One stage of the manifest as a function ``run(flow)``.

    ``context`` has ``input`` and ``dtype`` (the name and type of x), ``runners``, ``table(name)``, ``track_memory``,
    ``drawn`` (draw stages by output), ``pools`` (of draws, which a draw stage adds to) and ``promises``: what is sent
    keeps a promise. Raises ``BadInput``.
    """
    return kind_of(stage.entry).compile(stage, context)
