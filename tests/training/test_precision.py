import threading

import pytest
import torch

from nrs.training.precision import plain_modes


@pytest.mark.parametrize(
    "setting", [torch.no_grad, torch.inference_mode, lambda: torch.device("meta")]
)
def test_the_block_computes_plainly_and_the_setting_returns(setting):
    def modes():
        return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.empty(1).device

    with setting():
        before = modes()
        with plain_modes():
            weight = torch.ones(3, requires_grad=True)
            weight.sum().backward()
            assert weight.grad.tolist() == [1, 1, 1]
        assert modes() == before
        with pytest.raises(KeyError, match="inside"), plain_modes():
            raise KeyError("inside")
        assert modes() == before


def test_other_threads_keep_their_modes():
    inside, seen = threading.Event(), []

    def other():
        with torch.no_grad():
            inside.wait()
            seen.append(torch.is_grad_enabled())

    thread = threading.Thread(target=other)
    thread.start()
    with plain_modes():
        inside.set()
        thread.join()
    assert seen == [False]
