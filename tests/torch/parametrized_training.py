"""Twenty steps of training with parametrized weights and averaged models, as PyTorch does them: read by tests/training/nn.

Writes tests/torch/files/parametrized_training.npz: x, y, losses, and the states start.*, end.*, ema.*, swa.* under PyTorch's names, in f64.
Run by hand where PyTorch is installed:

    python tests/torch/parametrized_training.py
"""
import pathlib

import numpy as np
import torch
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.body = nn.Sequential(weight_norm(nn.Linear(4, 5)), nn.Tanh(), spectral_norm(nn.Linear(5, 6), n_power_iterations=2), nn.Tanh(),
                                  weight_norm(nn.Linear(6, 8), dim=1))
        self.conv = spectral_norm(nn.Conv1d(2, 3, 3, bias=False), dim=1)
        self.last = weight_norm(nn.Conv1d(3, 1, 2, bias=False), dim=None)

    def forward(self, x):
        return self.last(torch.tanh(self.conv(self.body(x).view(-1, 2, 4)))).view(-1)


def named(prefix, module):
    return {f"{prefix}.{name}": tensor.clone() for name, tensor in module.state_dict().items()}


def main():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    net = Net()
    ema, swa = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9)), AveragedModel(net, use_buffers=True)
    tensors = named("start", net) | {"x": torch.randn(6, 4), "y": torch.randn(6)}
    optimizer, losses = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), []
    for step in range(20):
        loss = ((net(tensors["x"]) - tensors["y"])**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        ema.update_parameters(net)
        if step % 5 == 4:
            swa.update_parameters(net)
    tensors |= named("end", net) | named("ema", ema) | named("swa", swa) | {"losses": torch.tensor(losses)}
    file = pathlib.Path(__file__).parent / "files" / "parametrized_training.npz"
    np.savez_compressed(file, **{name: tensor.numpy() for name, tensor in tensors.items()})


if __name__ == "__main__":
    main()
