import pickle

import pytest

from tinylab import errors


def test_the_help_stands_on_a_second_line():
    assert str(errors.ShapeError("cannot reshape")) == "cannot reshape"
    assert (
        str(errors.ShapeError("cannot reshape", help="write -1"))
        == "cannot reshape\nhelp: write -1"
    )


@pytest.mark.parametrize(
    ("mine", "builtin"),
    [
        (errors.ShapeError, ValueError),
        (errors.ShapeError, RuntimeError),
        (errors.BroadcastError, IndexError),
        (errors.StackError, AssertionError),
        (errors.DTypeError, RuntimeError),
        (errors.UnknownDTypeError, AttributeError),
        (errors.IndexingError, IndexError),
        (errors.OperandError, TypeError),
        (errors.BindError, AssertionError),
        (errors.SettingError, KeyError),
        (errors.CompileError, RuntimeError),
        (errors.UnknownDeviceError, ModuleNotFoundError),
        (errors.UnknownDeviceError, RuntimeError),
        (errors.ForbiddenDeviceError, AssertionError),
        (errors.AllocationError, MemoryError),
        (errors.BoundsError, IndexError),
    ],
)
def test_except_clauses_of_scripts_still_catch(mine, builtin):
    with pytest.raises(builtin, match="text"):
        raise mine("text")


def test_every_error_is_one_of_ours_and_survives_pickling():
    classes = [c for c in vars(errors).values() if isinstance(c, type)]
    assert len(classes) > 30
    for cls in classes:
        assert issubclass(cls, errors.TinylabError)
        back = pickle.loads(pickle.dumps(cls("what", help="do")))
        assert (type(back), back.message, back.help) == (cls, "what", "do")
