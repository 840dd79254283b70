"""Batch normalisation whose statistics are those of several processes."""

import torch

from nrs.core.norm import BatchNormReLU, ReducedBatchNormReLU


def test_reduced_statistics_of_one_process_are_its_own():
    torch.manual_seed(0)
    h = (torch.randn(7, 30) * 3 + 50).requires_grad_()
    gamma, beta = torch.rand(7, requires_grad=True), torch.randn(7, requires_grad=True)
    found = []
    for function, extra in ((BatchNormReLU, ()), (ReducedBatchNormReLU, (torch.clone,))):
        output, mean, variance, *_ = function.apply(h, gamma, beta, 1e-5, *extra)
        gradients = torch.autograd.grad(output.square().sum(), (h, gamma, beta))
        found.append((output.detach(), mean, variance, *gradients))
    for plain, reduced in zip(*found, strict=True):
        torch.testing.assert_close(plain, reduced, rtol=1e-4, atol=1e-4)
