"""ProxyNCA++, Figure 3: what the temperature does to the decision boundary of a softmax classifier, on two moons.

    python examples/two_moons.py [FILE.svg]

Small temperatures T sharpen softmax(z / T), so the same steps bend the boundary further around single samples. The
paper states neither network nor data; these are ours: 200 points, 32 hidden units, 1,000 steps of gradient descent.
"""

import sys

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from sklearn.datasets import make_moons
from torch import nn
from torch.nn import functional as F

TEMPERATURES = (1.0, 1 / 3, 1 / 9, 1 / 27)
STEPS, RATE = 1000, 0.03


def classifier(points: torch.Tensor, labels: torch.Tensor, temperature: float) -> nn.Module:
    """A network trained on cross entropy of z / T; every temperature starts from the same weights."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(network(points) / temperature, labels).backward()
        optimizer.step()
    return network


def main() -> None:
    data, classes = make_moons(200, noise=0.2, random_state=0)
    points, labels = torch.tensor(data, dtype=torch.float32), torch.tensor(classes)
    x, y = np.meshgrid(np.linspace(-1.8, 2.8, 200), np.linspace(-1.4, 1.9, 200))
    grid = torch.tensor(np.stack([x.ravel(), y.ravel()], axis=1), dtype=torch.float32)
    figure = Figure(figsize=(3 * len(TEMPERATURES), 2.8), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, temperature in zip(figure.subplots(1, len(TEMPERATURES)), TEMPERATURES, strict=True):
        network = classifier(points, labels, temperature)
        with torch.no_grad():
            probability = (network(grid) / temperature).softmax(dim=1)[:, 1].reshape(x.shape)
            right = (network(points).argmax(dim=1) == labels).float().mean()
        print(f"T = {temperature:.3f}: {100 * right:.1f} % of the training points on their side")
        axes.contourf(x, y, probability, levels=20, cmap="coolwarm", vmin=0, vmax=1, alpha=0.6)
        axes.contour(x, y, probability, levels=[0.5], colors="black")
        axes.scatter(*data.T, c=classes, cmap="coolwarm", edgecolors="white", s=14)
        axes.set_title(f"T = {temperature:.3f}, {100 * right:.1f} % right")
        axes.set_axis_off()
    if len(sys.argv) > 1:
        figure.savefig(sys.argv[1])


if __name__ == "__main__":
    main()
