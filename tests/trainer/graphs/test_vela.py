"""What an Ethos-U takes: by Arm's own compiler, on networks of ours and on one that it does not take."""

import json

import pytest
from typer.testing import CliRunner

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.models.generators import conv_generator
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.graphs import vela
from edgeveil.trainer.graphs.macs import keras_macs
from tests.support.export_models import calibration

NPUS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")


def files(model):
    return TfLite().convert(model, ("int8", "float32"), calibration(model, 4))


@pytest.fixture(scope="module")
def odd():
    """Sides that 2 does not divide: 11 x 6, 6 x 3, 3 x 2 and back."""
    model = conv_generator((11, 6, 1), width=8, halvings=2, blocks=1)
    assert keras_macs(model).macs > 0
    return files(model)


def test_each_npu_takes_all_of_a_generator_whatever_its_sides(odd):
    places = vela.place(odd["int8"], NPUS)
    assert tuple(one.npu for one in places) == NPUS
    for found in places:
        assert (found.on_cpu, found.left) == (0, ())
        assert found.on_npu > 5
        assert 0 < found.ms < 10
        assert found.clock_mhz > 0 < found.sram_kib


def test_together_and_in_another_order_npus_answer_as_alone(odd):
    alone = [vela.place(odd["int8"], [npu])[0] for npu in NPUS]
    assert vela.place(odd["int8"], NPUS[::-1]) == alone[::-1]


def test_floats_are_left_to_the_cpu_with_vela_s_reason(odd):
    (found,) = vela.place(odd["float32"], NPUS[:1])
    assert found.on_npu == 0 < found.on_cpu == len(found.left)
    assert "unsupported DataType Float32" in found.left[0]
    assert found.ms is found.clock_mhz is found.sram_kib is None


def test_a_file_or_an_npu_that_vela_does_not_know_is_one_sentence(odd):
    with pytest.raises(BadInput, match=r"Vela .* does not compile this TFLite file: "):
        vela.place(b"\x18\0\0\0TFL3 and then nothing", NPUS)
    with pytest.raises(BadInput, match=r"expected \(ethos-u55-32, .*\); got 'hailo'"):
        vela.place(odd["int8"], [NPUS[0], "hailo"])


def test_the_command_says_it_and_ends_with_3_where_a_cpu_is_needed(odd, tmp_path):
    for name, data in odd.items():
        (tmp_path / f"{name}.tflite").write_bytes(data)
    run = CliRunner().invoke
    asked = ["--npu", NPUS[0], "--npu", NPUS[2]]
    done = run(app, ["bundle", "cost", str(tmp_path / "int8.tflite"), *asked, "--json"])
    assert done.exit_code == 0, done.output
    placed = json.loads(done.stdout)["costs"]["int8.tflite"]["ethos_u"]
    assert [one["npu"] for one in placed] == [NPUS[0], NPUS[2]]
    text = run(app, ["bundle", "cost", str(tmp_path / "int8.tflite"), *asked]).stdout
    assert f"{placed[0]['on_npu']} of {placed[0]['on_npu']} operations on the NPU; ESTIMATED by Vela" in text
    done = run(app, ["bundle", "cost", str(tmp_path / "float32.tflite"), "--npu", NPUS[0]])
    assert isinstance(done.exception, LimitNotMet)
    assert "on the CPU: " in done.stdout


def test_what_has_no_int8_file_is_refused(tmp_path):
    conv_generator((8, 8, 1), width=4, halvings=1, blocks=1).save(tmp_path / "g.keras")
    done = CliRunner().invoke(app, ["bundle", "cost", str(tmp_path / "g.keras"), "--npu", NPUS[0]])
    assert isinstance(done.exception, BadInput)
    assert "An int8 TFLite file was expected" in str(done.exception)


def test_without_vela_it_is_said_how_to_get_it(monkeypatch):
    def missing(name):
        raise vela.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(vela.importlib.metadata, "version", missing)
    with pytest.raises(BadInput, match=r"pip install 'edgeveil\[ethos-u\]'"):
        vela.npus()
