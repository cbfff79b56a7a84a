"""Modules of PyTorch that between them have what is converted: one small network of each family."""

import importlib

# Samples of each, channels last. Those of UNTURNED need no transposed values; of OPEN a batch of any size is exported.
SHAPES = {
    "lenet": (12, 12, 1),
    "resnet": (16, 16, 3),
    "mixed": (13, 13, 1),
    "unet": (12, 8, 2),
    "convnext": (8, 8, 3),
    "transformer": (6, 8),
    "recurrent": (6, 8),
    "series": (20, 4),
    "mlp": (7,),
}
UNTURNED = ("lenet", "resnet", "unet", "series")
OPEN = ("transformer", "recurrent")
MERGED = {"recurrent": 8 + 2 * 20}  # the norms of weight_norm, and of two biases of an LSTM one


def made(name):
    """A module in inference, of seeded weights and statistics of its batch norms."""
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    module = _modules(torch)[name]()
    module(torch.rand(4, SHAPES[name][-1], *SHAPES[name][:-1]))
    for one in module.modules():
        if getattr(one, "running_var", None) is not None:
            one.running_var.uniform_(0.5, 2)
            one.running_mean.normal_()
    return module.eval()


def save(module, shape, path, batch):
    """A .pt2 of a module for such samples; a batch of None is open."""
    torch = importlib.import_module("torch")
    sample = torch.zeros(batch or 2, shape[-1], *shape[:-1])
    sizes = None if batch else ({0: torch.export.Dim("n")},)
    torch.export.save(torch.export.export(module.eval(), (sample,), dynamic_shapes=sizes), path)


def _modules(torch):
    nn, f = torch.nn, torch.nn.functional

    class Residual(nn.Module):
        def __init__(self, has, gives, step):
            super().__init__()
            self.one, self.two = (
                nn.Conv2d(has, gives, 3, step, 1, bias=False),
                nn.Conv2d(gives, gives, 3, 1, 1, bias=False),
            )
            self.norm, self.last = nn.BatchNorm2d(gives), nn.BatchNorm2d(gives)
            self.way = nn.Conv2d(has, gives, 1, step) if step > 1 else nn.Identity()

        def forward(self, x):
            return f.relu(self.last(self.two(f.relu(self.norm(self.one(x))))) + self.way(x))

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.d = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 16, 4, 2, 1)
            self.u, self.v = nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ConvTranspose2d(16, 8, 3, 2, 1, 1)
            self.last = nn.Conv2d(32, 2, 3, padding=1, padding_mode="reflect")
            self.n, self.g = nn.InstanceNorm2d(8, affine=True), nn.GroupNorm(2, 8)

        def forward(self, x):
            a = f.gelu(self.n(self.a(x)))
            d = f.leaky_relu(self.d(a), 0.2)
            small = f.interpolate(a, scale_factor=0.5, mode="bilinear")
            again = f.interpolate(small, scale_factor=2.0, mode="nearest")
            h = torch.cat([a, self.g(self.u(d)), self.v(d), again], 1)
            return torch.sigmoid(self.last(h)) * 0.9 + x * 0.1

    class ConvNext(nn.Module):
        def __init__(self):
            super().__init__()
            self.c, self.d = nn.Conv2d(3, 12, 2, 2), nn.Conv2d(12, 12, 5, padding=2, groups=12)
            self.n, self.l, self.m = nn.LayerNorm(12), nn.Linear(12, 24), nn.Linear(24, 12)
            self.scale = nn.Parameter(0.1 * torch.randn(12))
            self.h, self.p, self.o = nn.LayerNorm([12, 4, 4]), nn.PReLU(12), nn.Linear(12 * 16, 4)

        def forward(self, x):
            x = self.c(x)
            y = self.m(f.gelu(self.l(self.n(self.d(x).permute(0, 2, 3, 1))))) * self.scale
            x = self.h(self.p(x + y.permute(0, 3, 1, 2)))
            return self.o(f.dropout(torch.flatten(x, 1), 0.3, self.training))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
            self.body, self.last = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 3)
            self.token, self.place = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(7, 8))

        def forward(self, x):
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x.transpose(1, 2)], 1) + self.place
            return self.last(self.body(x)[:, 0])

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.long = nn.LSTM(8, 5, batch_first=True, bidirectional=True)
            self.gated = nn.GRU(10, 3, num_layers=2, batch_first=True)
            self.w = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))

        def forward(self, x):
            first, _ = self.w(x.transpose(1, 2)).chunk(2, -1)
            y, (h, _) = self.long(self.w(x.transpose(1, 2)))
            z, q = self.gated(y)
            return torch.cat([y[:, -1] + torch.cat([h[-2], h[-1]], -1), z.mean(1), q[1], first.amax(1)], 1)

    return {
        "lenet": lambda: nn.Sequential(
            *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 3), nn.Tanh()),
            *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 20), nn.ReLU(), nn.Dropout(), nn.Linear(20, 3)),
        ),
        "resnet": lambda: nn.Sequential(
            *(nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)),
            *(Residual(16, 16, 1), Residual(16, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5)),
        ),
        "mixed": lambda: nn.Sequential(
            *(nn.Conv2d(1, 4, 3, 2, 1), nn.MaxPool2d(3, 2, 1), nn.SELU(), nn.ConvTranspose2d(4, 4, 2, 3)),
            *(nn.ConvTranspose2d(4, 4, 3, 2, 1, 1), nn.Hardswish(), nn.Hardsigmoid(), nn.ReLU6(), nn.Mish(), nn.ELU()),
            *(
                nn.Softplus(2),
                nn.PixelShuffle(2),
                nn.ZeroPad2d((1, 2, 0, 1)),
                nn.AdaptiveAvgPool2d((7, 5)),
                nn.Flatten(),
            ),
            *(
                nn.Linear(35, 9),
                nn.Unflatten(1, (1, 3, 3)),
                nn.Conv2d(1, 2, 2),
                nn.Softmax(1),
                nn.AdaptiveAvgPool2d((2, 1)),
            ),
            *(nn.Flatten(1), nn.LogSoftmax(1)),
        ),
        "unet": UNet,
        "convnext": ConvNext,
        "transformer": Transformer,
        "recurrent": Recurrent,
        "series": lambda: nn.Sequential(
            *(
                nn.Conv1d(4, 8, 5, 2, 2),
                nn.BatchNorm1d(8),
                nn.ReLU(),
                nn.Conv1d(8, 8, 3, padding=2, dilation=2, groups=8),
            ),
            *(nn.MaxPool1d(2), nn.Upsample(scale_factor=2)),
            *(nn.AdaptiveMaxPool1d(5), nn.Flatten(), nn.Linear(40, 3)),
        ),
        "mlp": lambda: nn.Sequential(
            *(nn.Linear(7, 9), nn.BatchNorm1d(9), nn.SiLU(), nn.LayerNorm(9), nn.Linear(9, 2))
        ),
    }
