"""Compile Keras models for ``fit``."""

from __future__ import annotations

from typing import Any


def compile_built(model: Any, optimizer: Any, loss: Any, **options: Any) -> None:
    """``model.compile`` for training on a CPU; ``options`` are further ones of it. What is learned is the same.

    The variables of ``optimizer`` are made now. Where the first step makes them, TensorFlow traces that step twice,
    which for a small network takes longer than to train it.
    """
    # XLA does not pay on a CPU: compiling takes longer than it saves, and the compiled steps are slower here.
    model.compile(optimizer, loss, jit_compile=False, **options)
    optimizer.build(model.trainable_variables)
