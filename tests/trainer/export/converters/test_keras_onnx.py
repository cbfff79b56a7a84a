"""keras-onnx: through PyTorch to the opset that a board reads, with the numbers of Keras, the same bytes twice."""

from importlib.util import find_spec

import numpy as np
import pytest

from edgeveil.edge_runtime.backends import open_backend
from edgeveil.trainer.export.artefact import artefact_entry
from edgeveil.trainer.export.converters.converter import PRECISIONS
from edgeveil.trainer.export.converters.keras_onnx import KerasOnnx, _written_for
from edgeveil.trainer.export.manifest import lint
from edgeveil.trainer.graphs.files import read
from tests.support.export_models import calibration, image_net, two_input_net

LIMITS = {"float32": 1e-5, "float16": 5e-3, "int8": 0.12}
one_of = pytest.mark.parametrize(("make", "opset"), [(image_net, 13), (two_input_net, 19)])


@pytest.mark.torch
@pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch: scripts/environments/torch makes .venvs/torch")
@one_of
def test_every_precision_matches_keras(make, opset):
    import onnx

    model = make()
    rows = calibration(model)
    expected = model(list(rows.values()) if len(rows) > 1 else next(iter(rows.values())), training=False)
    expected = [np.asarray(one) for one in (expected if isinstance(expected, list) else [expected])]
    made = KerasOnnx(opset).convert(model, PRECISIONS, rows)
    for precision, data in made.items():
        graph = read(data, "onnx")
        assert (graph.opset, graph.ir) == {13: (13, 7), 19: (18, 8)}[opset]
        onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
        assert lint(graph, precision) == []
        names = {"inputs": [t.name for t in model.inputs], "outputs": list(model.output_names)}
        facts = artefact_entry(data, graph, file="a.onnx", precision=precision, max_abs=1.0, **names)
        got = open_backend("onnx", data, facts).run(rows)
        for name, values in zip(model.output_names, expected, strict=True):
            assert np.abs(got[name] - values).max() < LIMITS[precision] * max(1.0, np.abs(values).max()), precision
    kinds = [op.kind for op in read(made["float32"], "onnx").ops]
    if make is image_net:  # normalisation is folded, and the axes are turned once each way
        assert sorted(kinds) == ["Clip", "Conv", "Conv", "Resize", "Sigmoid", "Transpose", "Transpose"]
        assert KerasOnnx(opset).convert(model, PRECISIONS, rows) == made


def graph_of(*nodes, opset=18):
    """A graph from x (1, 4) to y."""
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph(list(nodes), "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def test_an_older_opset_is_written_only_where_it_has_the_operation():
    from onnx import helper

    proto = _written_for(graph_of(helper.make_node("Relu", ["x"], ["y"])), 13)
    assert (proto.opset_import[0].version, proto.ir_version) == (13, 7)
    with pytest.raises(ValueError, match="Mish is not of ONNX opset 13"):
        _written_for(graph_of(helper.make_node("Mish", ["x"], ["y"])), 13)
    both = helper.make_node("ReduceMax", ["x", "a"], ["y"], keepdims=1)
    with pytest.raises(ValueError, match="ReduceMax is written otherwise in opset 13"):
        _written_for(graph_of(both), 13)
    with pytest.raises(ValueError, match="Resize of opset 13 has no antialias"):
        _written_for(graph_of(helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear", antialias=1)), 13)
