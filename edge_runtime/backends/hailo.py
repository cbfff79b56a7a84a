"""Compiled files (.hef) on a Hailo-8, Hailo-8L or Hailo-10H, by HailoRT's own Python module.

Numbers are exchanged as float32: HailoRT quantises and dequantises by the scales in the file. Nothing of this ran on a
Hailo: it follows HailoRT's Python API (github.com/hailo-ai/hailort, hailort/libhailort/bindings/python). HailoRT 4 is
for the Hailo-8 family and runs it by streams; HailoRT 5 is for the Hailo-10H, which has its inference on the
accelerator and knows infer models alone (v5.2.0, src/vdevice/vdevice_hrpc_client.cpp).
"""

import contextlib
from typing import Any, Callable, Dict, List

import hailo_platform
import numpy as np

from edgeveil.edge_runtime.backends.base import Backend, placement_record
from edgeveil.edge_runtime.device import NoDevice
from edgeveil.edge_runtime.errors import BadInput

RUN_MS = 10_000
Run = Callable[[Dict[str, np.ndarray]], Dict[str, np.ndarray]]  # by the streams' names


class HailoRT(Backend):
    """hailo_platform: one network of a HEF, on the one Hailo that is there. It has no reference kernels."""

    name = "hailo-platform"
    package = "hailo_platform"
    formats = {"hef": "install HailoRT's wheel from hailo.ai"}
    devices = {"hailo8": ("hef",), "hailo8l": ("hef",), "hailo10h": ("hef",)}
    compiled = {
        "hailo8": (("tflite", "float32"), ("hef", "int8"), "Hailo's Dataflow Compiler on PATH"),
        "hailo8l": (("tflite", "float32"), ("hef", "int8"), "Hailo's Dataflow Compiler on PATH"),
        "hailo10h": (("tflite", "float32"), ("hef", "int8"), "Hailo's Dataflow Compiler 5 on PATH"),
    }

    def _open(self, model: bytes) -> None:
        library = hailo_platform
        self._version = getattr(library, "__version__", "unknown")
        self._opened = contextlib.ExitStack()
        hef = library.HEF(model)
        ends = (hef.get_input_vstream_infos(), hef.get_output_vstream_infos())
        self._in, self._out = (
            _streams(hef, infos, tensors) for infos, tensors in zip(ends, (self._inputs, self._outputs))
        )
        self._shapes = [tuple(stream.shape) for stream in self._in]
        try:
            device = self._opened.enter_context(library.VDevice())
            by_model = self.device == "hailo10h"
            self._run = self._infer_model(device, model) if by_model else self._streams(device, hef)
        except Exception as error:  # HailoRT's own, of many kinds
            self._opened.close()
            raise NoDevice(
                "HailoRT {} did not open the artefact on a {} ({}): see that the Hailo is there and free, and that "
                "export was for this one (a file for a Hailo-8 does not run on a Hailo-8L); or choose --device "
                "cpu".format(self._version, self.device, " ".join(str(error).split())[:200])
            ) from None

    def _streams(self, device: Any, hef: Any) -> Run:
        library = hailo_platform
        interface = library.HailoStreamInterface.PCIe
        (network,) = device.configure(hef, library.ConfigureParams.create_from_hef(hef, interface=interface))
        as_float = {"format_type": library.FormatType.FLOAT32}
        streams = library.InferVStreams(
            network,
            library.InputVStreamParams.make(network, **as_float),
            library.OutputVStreamParams.make(network, **as_float),
        )
        run: Run = self._opened.enter_context(streams).infer
        self._opened.enter_context(network.activate(network.create_params()))
        return run

    def _infer_model(self, device: Any, model: bytes) -> Run:
        network = device.create_infer_model(bytes(model))
        for end in [*network.inputs, *network.outputs]:
            end.set_format_type(hailo_platform.FormatType.FLOAT32)
        configured = self._opened.enter_context(network.configure())

        def run(given: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
            # A binding is of one frame, without the batch's axis.
            inputs = {name: value[0] for name, value in given.items()}
            results = {one.name: np.empty(tuple(one.shape), np.float32) for one in self._out}
            configured.run([configured.create_bindings(inputs, results)], RUN_MS)
            return results

        return run

    def _infer(self, feeds: List[np.ndarray]) -> List[np.ndarray]:
        given = {
            stream.name: np.ascontiguousarray(feed.reshape((len(feed),) + shape))
            for stream, shape, feed in zip(self._in, self._shapes, feeds)
        }
        results = self._run(given)
        return [
            np.asarray(results[stream.name]).reshape(tensor.shape) for stream, tensor in zip(self._out, self._outputs)
        ]

    def placement(self) -> Dict[str, Any]:
        """As ``Backend.placement``: the file is one program for the accelerator, and does not tell its operations."""
        return placement_record(
            self.device,
            {self.device: "all"},
            "the file has operations of the accelerator alone",
            driver="HailoRT {}".format(self._version),
            compiler="Hailo Dataflow Compiler",
        )

    def close(self) -> None:
        """Release the accelerator."""
        self._run = lambda _: {}
        self._opened.close()


def _streams(hef: Any, infos: List[Any], tensors: List[Any]) -> List[Any]:
    """The file's streams in the manifest's order: the only one, or those that were made of these tensors.

    Raises ``BadInput`` where one is missing or has another number of values.
    """
    streams = []
    for tensor in tensors:
        mine = [
            info
            for info in infos
            if len(infos) == len(tensors) == 1 or tensor.tensor in hef.get_original_names_from_vstream_name(info.name)
        ]
        if len(mine) != 1 or int(np.prod(mine[0].shape)) != int(np.prod(tensor.shape[1:])):
            raise BadInput(
                "the manifest says {!r} is {}; the artefact has {}".format(
                    tensor.tensor,
                    list(tensor.shape),
                    ", ".join("{} {}".format(info.name, list(info.shape)) for info in infos),
                )
            )
        streams.append(mine[0])
    return streams
