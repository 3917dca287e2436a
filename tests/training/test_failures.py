"""A step that fails says where it was, with which images, and what to do."""

import errno
from types import SimpleNamespace

import pytest
import torch

from lookalike.config.schema import TrainSettings
from lookalike.errors import ArgumentError, NotFiniteError, TrainingError, is_out_of_memory
from lookalike.training.failures import StepInfo, training_errors

TABLE = SimpleNamespace(paths=[f"{row}.png" for row in range(20)])
PLACE = StepInfo(2, 3, 0.5, SimpleNamespace(table=TABLE), [10, 11, 12, 13, 14, 15, 16])
TORCH_ON_A_CPU = (
    "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.\nmore"
)
SHORT_OF_MEMORY = {
    "numpy, or Python": MemoryError("Unable to allocate 9 bytes"),
    "without a word": MemoryError(),
    "torch on a CPU": RuntimeError(TORCH_ON_A_CPU),
    "torch on Windows": RuntimeError(
        "DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."
    ),
    "a file that is mapped": RuntimeError(
        "unable to mmap 9 bytes from file <x>: Cannot allocate memory (12)"
    ),
    "oneDNN": RuntimeError("could not create a primitive"),
    "C++": RuntimeError("std::bad_alloc"),
    "the system": OSError(errno.ENOMEM, "Cannot allocate memory"),
    "torch on an accelerator": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    "the driver": RuntimeError("CUDA error: out of memory"),
    "a library of the driver": RuntimeError(
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"
    ),
    "torch on Apple's GPU": RuntimeError("MPS backend out of memory (MPS allocated: 9.07 GB)."),
}


def told(error: Exception) -> str:
    with pytest.raises(TrainingError) as caught, training_errors(PLACE, TrainSettings()):
        raise error
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_embeddings_that_are_not_finite_name_their_images_alone():
    message = told(NotFiniteError("embeddings are not finite in 2 of 7 samples", [1, 4]))
    assert message.startswith("embeddings are not finite in epoch 2, step 3 (learning rates: backbone ")
    assert message.endswith("; images: 11.png, 14.png")


def test_gradients_that_are_not_finite_are_not_called_the_loss():
    assert told(NotFiniteError("the gradients are not finite")).startswith(
        "the gradients are not finite in epoch 2"
    )


def test_a_loss_that_is_not_finite_names_the_first_images_of_the_batch():
    message = told(NotFiniteError("the loss is not finite"))
    assert message.startswith("the loss is not finite in epoch 2, step 3 ")
    assert message.endswith("; images: 10.png, 11.png, 12.png, 13.png, 14.png ...")


@pytest.mark.parametrize("who", SHORT_OF_MEMORY)
def test_memory_that_does_not_suffice_is_reported_with_the_size_of_the_batch_and_a_way_out(who):
    error = SHORT_OF_MEMORY[who]
    assert is_out_of_memory(error)
    message = told(error)
    assert message.startswith("out of memory in epoch 2, step 3, a batch of 7 images (")
    assert "train.accumulate=2" in message


@pytest.mark.parametrize("error", [ArgumentError("labels"), RuntimeError("mat1 and mat2"), KeyError("x")])
def test_every_other_error_stays_what_it_is(error):
    assert not is_out_of_memory(error)
    with pytest.raises(type(error)) as caught, training_errors(PLACE, TrainSettings()):
        raise error
    assert caught.value is error
