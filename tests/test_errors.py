"""Every error class: its full text, its slots, the builtin that callers already catch."""

from __future__ import annotations

import pickle

import pytest

from intact import errors
from intact.errors import (
    CalibrationError,
    ClashingInstallationError,
    FileAccessError,
    FileFormatError,
    IntactError,
    MissingExtraError,
    QuantValueError,
    UnsupportedError,
)

BUILTINS = {
    IntactError: Exception,
    QuantValueError: ValueError,
    CalibrationError: RuntimeError,
    UnsupportedError: TypeError,
    FileFormatError: ValueError,
    FileAccessError: OSError,
    ClashingInstallationError: ImportError,
    MissingExtraError: ImportError,
}
each = pytest.mark.parametrize("cls", BUILTINS, ids=lambda cls: cls.__name__)


def test_the_table_above_is_complete():
    here = {c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, IntactError)}
    assert here == set(BUILTINS)


@each
def test_text_has_the_four_slots(cls):
    error = cls("conv1.weight", "3 NaN", "finite values", "train again")
    assert str(error) == "conv1.weight: got 3 NaN, want finite values. Fix: train again"
    assert (error.where, error.got, error.want, error.fix) == (
        "conv1.weight",
        "3 NaN",
        "finite values",
        "train again",
    )


@each
def test_is_the_builtin_that_callers_catch(cls):
    with pytest.raises(BUILTINS[cls]) as caught:
        raise cls("amax", "-1", ">= 0", "pass a magnitude")
    assert isinstance(caught.value, IntactError)


@each
def test_at_adds_the_place_once_and_keeps_the_class(cls):
    inner = cls("amax", "-1", "a value >= 0", "pass a magnitude")
    outer = inner.at("layer1.0.conv")
    assert type(outer) is cls
    assert str(outer) == "layer1.0.conv: amax: got -1, want a value >= 0. Fix: pass a magnitude"
    assert inner.where == "amax"


@each
def test_survives_a_process_boundary(cls):
    """Data loaders and torchrun workers hand exceptions over by pickling them."""
    error = cls("x", "1", "2", "add 1")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == str(error)


def test_missing_extra_says_what_to_install():
    assert str(MissingExtraError.of("torch", "torch", "intact.torch")) == (
        "intact.torch: got no package 'torch', want 'torch' to be importable. "
        "Fix: run: pip install 'intact-quant[torch]'"
    )
