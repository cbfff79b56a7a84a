"""Files of ``torch.export.save``: they are read without PyTorch, and nothing in them is run."""

import io
import json
import pickle
import zipfile
from pathlib import Path

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.pt2 import read_pt2
from tests.support.checkout import ROOT

LINEAR = ROOT / "tests/trainer/networks/linear.pt2"  # as torch.export.save wrote it


class Opens:
    """What is run where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def changed(archive, **changes):
    """An archive with the bytes of some parts changed: a function of them, by the end of their names."""
    made = io.BytesIO()
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(made, "w") as new:
        for one in old.namelist():
            act = next((act for end, act in changes.items() if Path(one).stem == end), lambda data: data)
            new.writestr(one, act(old.read(one)))
    made.seek(0)
    return made


def test_a_file_is_read_without_pytorch():
    program = read_pt2(LINEAR, "linear.pt2")
    assert [(node.op, node.module) for node in program.nodes] == [("linear", "0"), ("relu", "1"), ("linear", "2")]
    assert program.weights["p_0_weight"].tolist() == [[0.5, -1.0, 2.0], [0.25, 0.0, 1.0]]
    assert program.trained == {"p_0_weight", "p_0_bias", "p_2_weight", "p_2_bias"}
    assert program.shapes["x" if "x" in program.shapes else program.inputs[0]] == (None, 3)


def as_json(change):
    def act(data):
        document = json.loads(data)
        return json.dumps(change(document) or document).encode()

    return act


def pickled(document):
    document["config"]["0.weight"]["use_pickle"] = True


def far(document):
    document["config"]["0.weight"]["tensor_meta"]["sizes"][0] = {"as_int": 1 << 40}


def outside(document):
    document["config"]["0.weight"]["tensor_meta"]["storage_offset"] = {"as_int": 4}


def negative(document):
    document["config"]["0.weight"]["tensor_meta"]["strides"][0] = {"as_int": -1}


def of_another(target):
    def change(document):
        document["graph_module"]["graph"]["nodes"][1]["target"] = target

    return change


def newer(document):
    document["schema_version"]["major"] = 9


def custom(document):
    document["graph_module"]["graph"]["nodes"][1]["inputs"][0]["arg"] = {
        "as_custom_obj": {"name": "a", "class_fqn": "b"}
    }


def mutated(document):
    mutation = {"arg": {"name": "a"}, "buffer_name": "1.mean"}
    document["graph_module"]["signature"]["output_specs"].insert(0, {"buffer_mutation": mutation})


def in_place(document):
    graph, specs = document["graph_module"]["graph"], document["graph_module"]["signature"]["input_specs"]
    one = json.loads(json.dumps(graph["nodes"][1]).replace("aten.relu", "aten.relu_"))
    one["inputs"][0]["arg"] = {"as_tensor": specs[0]["parameter"]["arg"]}
    one["outputs"][0]["as_tensor"]["name"] = "nowhere"
    graph["nodes"].insert(0, one)


HOSTILE = {
    "pickled weights": ("model_weights_config", pickled, "0.weight is a pickle, which can run code"),
    "too many": ("model_weights_config", far, "is no whole file of torch.export.save"),
    "outside": ("model_weights_config", outside, "is no whole file"),
    "negative": ("model_weights_config", negative, "is no whole file"),
    "code": ("model", of_another("torch.hub.load"), "operations of PyTorch's own were expected"),
    "an operation of another": ("model", of_another("torch.ops.mine.relu.default"), "operations of PyTorch's own"),
    "a newer schema": ("model", newer, "schema 8 of torch.export was expected"),
    "an object": ("model", custom, "relu of the layer 1 takes custom_obj"),
    "a state": ("model", mutated, r"1.mean changes at each pass.*call model.eval\(\)"),
    "a state in place": ("model", in_place, r"0.weight changes at each pass.*call model.eval\(\)"),
}


@pytest.mark.parametrize(("part", "change", "says"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_in_one_sentence(part, change, says):
    with pytest.raises(BadInput, match=says) as caught:
        read_pt2(changed(LINEAR, **{part: as_json(change)}), "linear.pt2")
    assert "\n" not in str(caught.value)


def test_a_pickle_is_no_file_and_a_part_that_is_one_is_left_alone(tmp_path):
    ran = tmp_path / "ran"
    code = pickle.dumps(Opens(ran))
    (tmp_path / "m.pt2").write_bytes(code)
    with zipfile.ZipFile(tmp_path / "old.pt2", "w") as archive:  # as torch.save writes it
        archive.writestr("archive/data.pkl", code)
    for name in ("m.pt2", "old.pt2"):
        with pytest.raises(BadInput, match=r"is no whole file of torch.export.save .* a pickle least of all"):
            read_pt2(tmp_path / name, name)
    expression = f"__import__('pathlib').Path({str(ran)!r}).touch()".encode()
    text = changed(LINEAR, model=lambda data: data.replace(b"Symbol(", expression + b" or Symbol("))
    with zipfile.ZipFile(text, "a") as archive:
        archive.writestr("m/data/sample_inputs/model.pt", code)
        archive.writestr("m/extra/x.pkl", code)
    assert len(read_pt2(text, "linear.pt2").nodes) == 3
    assert not ran.exists()
    pickle.loads(code)  # noqa: S301 (as torch.export.load does)
    assert ran.exists()


def test_no_part_unfolds_to_any_size():
    made = io.BytesIO()
    with zipfile.ZipFile(LINEAR) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for one in old.namelist():
            new.writestr(one, old.read(one))
    with pytest.raises(BadInput, match="is no whole file"):
        read_pt2(made, "linear.pt2")
