"""A loss written in torsh_fx, trained inside a PyTorch model.

    python -m pip install 'torsh_fx[torch,examples]'
    python examples/torch_loss.py

The model, the data and the optimiser are PyTorch's; the focal loss, with smoothed labels, is
a torsh_fx function, compiled by XLA.  The same model is trained with the same
loss written in PyTorch: the two agree, step by step.
"""

import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torsh_fx.interop.torch import as_torch

import torsh_fx as tx

EPOCHS, BATCH, SMOOTHING, FOCUS = 12, 64, 0.05, 2.0
traces = []


def focal(logits, labels):
    """Cross-entropy that looks away from what is right already; on torsh_fx Tensors."""
    traces.append(logits.shape)
    log_p = tx.log_softmax(logits, 1)
    n = logits.shape[1]
    target = tx.nn.functional.one_hot(labels, n).to(logits.dtype) * (1 - SMOOTHING) + SMOOTHING / n
    return -(target * (1 - log_p.exp()) ** FOCUS * log_p).sum(1).mean()


def focal_in_torch(logits, labels):
    log_p = torch.log_softmax(logits, 1)
    n = logits.shape[1]
    target = torch.nn.functional.one_hot(labels, n).to(logits.dtype) * (1 - SMOOTHING) + SMOOTHING / n
    return -(target * (1 - log_p.exp()) ** FOCUS * log_p).sum(1).mean()


class Classifier(torch.nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
        self.loss = loss

    def forward(self, x, labels):
        logits = self.body(x)
        return self.loss(logits, labels), (logits.argmax(1) == labels).float().mean()


def train(loss, x, y):
    torch.manual_seed(0)
    model = Classifier(loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    curve = []
    began = time.perf_counter()
    for _ in range(EPOCHS):
        order = torch.randperm(len(x))
        for start in range(0, len(order), BATCH):  # the last batch is smaller: a second signature
            rows = order[start : start + BATCH]
            value, _ = model(x[rows], y[rows])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            curve.append(value.item())
    return model, np.array(curve), time.perf_counter() - began


def main():
    torch.set_num_threads(1)  # batches of 64 are too small for more
    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels)
    x_train, y_train, x_test, y_test = x[:1400], y[:1400], x[1400:], y[1400:]

    ours, our_curve, our_seconds = train(as_torch(focal), x_train, y_train)
    theirs, their_curve, their_seconds = train(focal_in_torch, x_train, y_train)
    gap = np.abs(our_curve - their_curve).max()
    print(f"{len(our_curve)} steps; the loss was traced {len(traces)} times, for batches {traces}")
    print(f"loss from {our_curve[0]:.4f} to {our_curve[-1]:.4f}; it differs from PyTorch's by at most {gap:.1e}")
    print(f"seconds: {our_seconds:.1f} with the torsh_fx loss (compiling included), {their_seconds:.1f} with PyTorch's")
    assert len(traces) == 2
    with torch.no_grad():
        scores = [model(x_test, y_test)[1].item() for model in (ours, theirs)]
    print(f"test accuracy: {scores[0]:.1%} and {scores[1]:.1%}")
    assert gap < 1e-3
    assert min(scores) > 0.88

    # Second derivatives cross over, too: PyTorch differentiates the gradient of the torsh_fx loss.
    logits = torch.randn(4, 10, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([1, 2, 3, 4])
    penalties = []
    for loss in (as_torch(focal), focal_in_torch):
        (g,) = torch.autograd.grad(loss(logits, labels), logits, create_graph=True)
        penalties.append(torch.autograd.grad(g.square().sum(), logits)[0])
    print(f"a gradient penalty's own gradient differs by {(penalties[0] - penalties[1]).abs().max():.1e}")
    assert torch.allclose(*penalties)


if __name__ == "__main__":
    main()
