"""Networks of PyTorch as a user brings them, of other architectures than ours; frameworks.py trains with them."""

from typing import Any

import torch
from torch import nn


def classifier(spec: Any) -> nn.Module:
    """For pictures convolutions with batch norm, SiLU and pooling; for vectors dense layers with batch norm, GELU."""
    if len(spec.shape) == 1:
        norm = nn.Linear(spec.shape[0], 256), nn.BatchNorm1d(256), nn.GELU(), nn.Dropout(0.3)
        return nn.Sequential(*norm, nn.Linear(256, 96), nn.SiLU(), nn.Linear(96, spec.classes))
    layers: list[nn.Module] = []
    for has, gives in ((spec.shape[-1], 24), (24, 48), (48, 64)):
        layers += [nn.Conv2d(has, gives, 3, padding=1), nn.BatchNorm2d(gives), nn.SiLU(), nn.MaxPool2d(2)]
    head = nn.Flatten(), nn.LazyLinear(96), nn.SiLU(), nn.Dropout(0.3), nn.Linear(96, spec.classes)
    return nn.Sequential(*layers, *head)


def slight(layer: Any) -> Any:
    """The last layer of what is added to a sample, so that training begins near the sample itself."""
    nn.init.normal_(layer.weight, std=0.01)
    nn.init.zeros_(layer.bias)
    return layer


class Residual(nn.Module):
    """Two convolutions whose result is added to what came in."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.inside = nn.Sequential(nn.Conv2d(wide, wide, 3, 1, 1), nn.ReLU(), nn.Conv2d(wide, wide, 3, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The next features."""
        return torch.relu(x + self.inside(x))


class UNet(nn.Module):
    """Down twice, ``blocks`` residual blocks, up twice, with a skip between; what it gives is added to the sample.
    ``resized``: it goes up by resizing, for boards whose runtime has no newer transposed convolution."""

    def __init__(self, deep: int, *, blocks: int = 0, resized: bool = False) -> None:
        super().__init__()

        def up(has: int, gives: int) -> tuple[nn.Module, ...]:
            by_size = nn.Upsample(scale_factor=2), nn.Conv2d(has, gives, 3, 1, 1)
            return by_size if resized else (nn.ConvTranspose2d(has, gives, 4, 2, 1),)

        self.first = nn.Sequential(nn.Conv2d(deep, 16, 3, 2, 1), nn.ReLU())
        body = [Residual(32) for _ in range(blocks)]
        self.low = nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), *body, *up(32, 16), nn.ReLU())
        self.last = nn.Sequential(*up(32, deep), nn.Tanh())
        slight(self.last[-2])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The perturbed sample."""
        first = self.first(x)
        return x + self.last(torch.cat([first, self.low(first)], 1))


class Change(nn.Module):
    """What is added to a vector, of a network with batch norm."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        body = nn.Linear(wide, 192), nn.BatchNorm1d(192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU()
        self.inside = nn.Sequential(*body, slight(nn.Linear(192, wide)), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The perturbed sample."""
        return x + self.inside(x)


def generator(spec: Any) -> nn.Module:
    """The one for such samples."""
    return Change(spec.shape[0]) if len(spec.shape) == 1 else UNet(spec.shape[-1], blocks=2)


def resizing(spec: Any) -> nn.Module:
    """A generator of pictures that every board runs."""
    return UNet(spec.shape[-1], resized=True)


class Block(nn.Module):
    """A basic block of ResNet (He et al., 2015), as torchvision has it."""

    def __init__(self, has: int, gives: int, step: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(has, gives, 3, step, 1, bias=False), nn.BatchNorm2d(gives)
        self.conv2, self.bn2 = nn.Conv2d(gives, gives, 3, 1, 1, bias=False), nn.BatchNorm2d(gives)
        self.relu = nn.ReLU(inplace=True)
        other = nn.Sequential(nn.Conv2d(has, gives, 1, step, bias=False), nn.BatchNorm2d(gives))
        self.downsample = other if step > 1 or has != gives else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The next features."""
        inside = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(inside + self.downsample(x))


def resnet18(spec: Any) -> nn.Module:
    """torchvision's ResNet-18: 11.2 million weights."""
    layers: list[nn.Module] = [nn.Conv2d(spec.shape[-1], 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers += [nn.MaxPool2d(3, 2, 1)]
    for has, gives in ((64, 64), (64, 128), (128, 256), (256, 512)):
        layers += [Block(has, gives, 1 if has == gives else 2), Block(gives, gives, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, spec.classes))
