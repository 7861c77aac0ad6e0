from __future__ import annotations

import torch

from benchmarks.graphs.rivals.mlp import Fitting, fit, network, pick, predict


def rings(n: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    """Two rings in the plane: no linear classifier separates them."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    angle = 2 * torch.pi * torch.rand(n, generator=generator)
    radius = 1.0 + y + 0.1 * torch.randn(n, generator=generator)
    return radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1), y


def test_three_linear_layers_of_the_given_width():
    net = network([7, 2], 3, Fitting())
    assert [tuple(weight.shape) for weight in net[0].weights] == [(7, 512), (2, 512)]
    linear = [layer for layer in net if isinstance(layer, torch.nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in linear] == [(512, 512), (512, 3)]


def test_it_separates_what_no_linear_classifier_does_and_keeps_the_best_epoch():
    x, y = rings()
    train, validation = torch.arange(200), torch.arange(200, 300)
    how = Fitting(width=32, dropout=0.0, epochs=60, batch_size=64)
    net, best = fit((x,), y, train, validation, n_classes=2, how=how)
    assert (predict(net, (x,), torch.arange(400)).argmax(1) == y)[300:].double().mean() > 0.95
    assert best == (predict(net, (x,), torch.arange(400)).argmax(1) == y)[validation].double().mean()
    again, _ = fit((x,), y, train, validation, n_classes=2, how=how)
    assert torch.equal(predict(net, (x,), torch.arange(400)), predict(again, (x,), torch.arange(400)))


def test_the_validation_nodes_choose():
    assert pick([1, 2, 3], lambda how: (f"net {how}", {1: 0.5, 2: 0.7, 3: 0.7}[how])) == ("net 2", 0.7, 2)
    x, y = rings(120)
    grid = (Fitting(width=4, epochs=2), Fitting(width=32, dropout=0.0, epochs=40))
    parts = torch.arange(60), torch.arange(60, 120)
    _, _, how = pick(grid, lambda how: fit((x,), y, *parts, n_classes=2, how=how))
    assert how == grid[1]
