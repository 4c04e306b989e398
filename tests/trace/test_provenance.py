import tinylab
from tinylab import Tensor
from tinylab.trace import provenance
from tinylab.trace.record import record


def called_here():
    return provenance.user_frames()


def test_frames_are_the_users_innermost_first():
    frames = called_here()
    assert [f.function for f in frames[:2]] == [
        "called_here",
        "test_frames_are_the_users_innermost_first",
    ]
    assert all(f.filename == __file__ for f in frames)


def test_frames_of_tinylab_and_of_the_host_are_left_out():
    with record() as rec:
        held = Tensor.empty(4, device="NULL").relu()
    frames, method = rec._noted[held.uop][0]
    assert method == "relu"
    package = tinylab.__path__[0]
    assert frames[0].filename == __file__
    assert not any(f.filename.startswith(package) or "_pytest" in f.filename for f in frames)


def test_nothing_is_noted_while_nobody_records():
    with record() as rec:
        pass
    Tensor.empty(4, device="NULL").relu()
    assert len(rec._noted) == 0


def test_a_noted_node_lives_no_longer_for_it():
    with record() as rec:
        for _ in range(50):
            Tensor.empty(4, device="NULL").relu()
        assert len(rec._noted) < 20
