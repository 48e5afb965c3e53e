"""Layers after 20 steps of SGD, as PyTorch trains them: the cases of tests/training/layers.

Writes tests/torch/layer_training.tsv: of each case every parameter and buffer after training, and `output`, what the layer in evaluation gives
then: its sizes and two sums of its elements with different weights. Parameters start as a formula of their names says, in f64.
Run by hand where PyTorch is installed:

    python tests/torch/layer_training.py
"""
import pathlib
import warnings

import torch
from torch import nn

HERE = pathlib.Path(__file__).parent


def sines(sizes, step, shift, amount):
    n = torch.arange(int(torch.tensor(sizes).prod()) if sizes else 1, dtype=torch.float64)
    return (amount * torch.sin(step * n + shift)).view(sizes)


def wave(*sizes, k=0.0):
    return sines(sizes, 0.7, k, 1.5)


def numbers(*sizes, below):
    n = torch.arange(int(torch.tensor(sizes).prod()))
    return ((n * 7 + 3) % below).view(sizes)


def ints(*values):
    return torch.tensor(values)


class Behind(nn.Module):
    """What has no parameters, behind a Linear."""
    def __init__(self, size, then, call=None):
        super().__init__()
        self.first, self.then, self.call = nn.Linear(size, size), then, call

    def forward(self, x, *more):
        return self.call(self.then, self.first(x), *more) if self.call else self.then(self.first(x), *more)


LINEAR = {
    "linear": (lambda: nn.Linear(4, 3), wave(2, 5, 4)),
    "linear_no_bias": (lambda: nn.Linear(4, 3, False), wave(4)),
    "bilinear": (lambda: nn.Bilinear(3, 4, 2), wave(5, 3), wave(5, 4, k=1)),
    "identity": (lambda: Behind(4, nn.Identity()), wave(3, 4)),
    "embedding": (lambda: nn.Embedding(7, 3, padding_idx=-2), numbers(2, 6, below=7)),
    "embedding_frequencies": (lambda: nn.Embedding(7, 3, scale_grad_by_freq=True), numbers(11, below=5)),
    "embedding_bag_mean": (lambda: nn.EmbeddingBag(7, 3, padding_idx=3), numbers(4, 6, below=7)),
    "embedding_bag_sum": (lambda: nn.EmbeddingBag(7, 3, mode="sum"), numbers(9, below=7), ints(0, 2, 2, 7), wave(9)),
    "embedding_bag_max": (lambda: nn.EmbeddingBag(7, 3, mode="max", include_last_offset=True), numbers(9, below=7), ints(0, 2, 9)),
}


class Sized(nn.Module):
    """A transposed convolution that is told the sizes of its result."""
    def __new__(cls, layer, sizes):
        forward = layer.forward
        layer.forward = lambda x: forward(x, sizes)
        return layer


CONVOLUTION = {
    "conv1d": (lambda: nn.Conv1d(4, 6, 3), wave(2, 4, 7)),
    "conv1d_same": (lambda: nn.Conv1d(2, 3, 4, padding="same", dilation=3), wave(2, 2, 9)),
    "conv1d_reflect": (lambda: nn.Conv1d(2, 3, 3, stride=2, padding=2, padding_mode="reflect"), wave(2, 2, 9)),
    "conv2d": (lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), groups=2), wave(2, 4, 6, 5)),
    "conv2d_one_image": (lambda: nn.Conv2d(2, 3, 3, padding=1, bias=False), wave(2, 5, 4)),
    "conv2d_depthwise": (lambda: nn.Conv2d(3, 6, 3, padding=(1, 2), dilation=(1, 2), groups=3, padding_mode="circular"), wave(2, 3, 5, 6)),
    "conv2d_same_replicate": (lambda: nn.Conv2d(2, 3, (2, 4), padding="same", padding_mode="replicate"), wave(2, 5, 6)),
    "conv2d_valid": (lambda: nn.Conv2d(2, 3, 2, padding="valid"), wave(1, 2, 4, 4)),
    "conv3d": (lambda: nn.Conv3d(2, 3, (2, 3, 2), stride=(1, 2, 1), padding=(0, 1, 1)), wave(2, 2, 4, 5, 3)),
    "conv_transpose1d": (lambda: nn.ConvTranspose1d(3, 2, 4), wave(2, 3, 5)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(4, 6, (3, 2), stride=3, padding=(1, 0), output_padding=(2, 1), groups=2, dilation=(2, 1)), wave(2, 4, 3, 4)),
    "conv_transpose2d_sizes": (lambda: Sized(nn.ConvTranspose2d(2, 3, 3, stride=2, bias=False), (8, 9)), wave(2, 3, 4)),
    "conv_transpose3d": (lambda: nn.ConvTranspose3d(2, 3, (2, 1, 3), stride=(1, 2, 1)), wave(1, 2, 3, 2, 2)),
}

NORMALIZATION = {
    "batch_norm1d": (lambda: nn.BatchNorm1d(3), wave(5, 3)),
    "batch_norm1d_rows": (lambda: nn.BatchNorm1d(3, eps=1e-3, momentum=0.3), wave(4, 3, 5)),
    "batch_norm1d_average": (lambda: nn.BatchNorm1d(3, momentum=None), wave(4, 3, 2)),
    "batch_norm2d": (lambda: nn.BatchNorm2d(3), wave(2, 3, 4, 5)),
    "batch_norm2d_plain": (lambda: Behind(5, nn.BatchNorm2d(3, affine=False)), wave(2, 3, 4, 5)),
    "batch_norm3d_untracked": (lambda: nn.BatchNorm3d(2, track_running_stats=False), wave(2, 2, 3, 2, 4)),
    "instance_norm1d": (lambda: Behind(6, nn.InstanceNorm1d(3)), wave(2, 3, 6)),
    "instance_norm2d": (lambda: nn.InstanceNorm2d(3, momentum=0.2, affine=True, track_running_stats=True), wave(2, 3, 4, 5)),
    "instance_norm3d_one": (lambda: nn.InstanceNorm3d(2, affine=True), wave(2, 3, 2, 4)),
    "layer_norm": (lambda: nn.LayerNorm(4), wave(2, 3, 4)),
    "layer_norm_two": (lambda: nn.LayerNorm((3, 4), eps=1e-2, bias=False), wave(2, 3, 4)),
    "layer_norm_plain": (lambda: Behind(4, nn.LayerNorm(4, elementwise_affine=False)), wave(2, 3, 4)),
    "rms_norm": (lambda: nn.RMSNorm(4), wave(2, 3, 4)),
    "rms_norm_two": (lambda: nn.RMSNorm((3, 4), eps=0.1), wave(2, 3, 4)),
    "group_norm": (lambda: nn.GroupNorm(2, 6), wave(2, 6, 3)),
    "group_norm_plain": (lambda: Behind(3, nn.GroupNorm(3, 6, eps=0.1, affine=False)), wave(2, 6, 3)),
    "local_response_norm": (lambda: Behind(3, nn.LocalResponseNorm(3, alpha=0.1, beta=0.5, k=2)), wave(2, 5, 3)),
}

def activation(make):
    return lambda: Behind(6, make()), wave(3, 4, 6)


ACTIVATION = {name: activation(make) for name, make in {
    "relu": nn.ReLU, "relu6": nn.ReLU6, "leaky_relu": nn.LeakyReLU, "leaky_relu_slope": lambda: nn.LeakyReLU(0.2), "elu": lambda: nn.ELU(0.7),
    "selu": nn.SELU, "celu": lambda: nn.CELU(1.5), "gelu": nn.GELU, "gelu_tanh": lambda: nn.GELU("tanh"), "silu": nn.SiLU, "mish": nn.Mish,
    "softplus": lambda: nn.Softplus(2, 1), "softsign": nn.Softsign, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "hardtanh": nn.Hardtanh,
    "hardtanh_bounds": lambda: nn.Hardtanh(-0.2, 0.7), "hardswish": nn.Hardswish, "hardsigmoid": nn.Hardsigmoid, "log_sigmoid": nn.LogSigmoid,
    "glu": nn.GLU, "glu_dim": lambda: nn.GLU(1), "softmax": lambda: nn.Softmax(1), "log_softmax": lambda: nn.LogSoftmax(-1),
    "softmin": lambda: nn.Softmin(0), "softmax2d": nn.Softmax2d, "threshold": lambda: nn.Threshold(0.1, 0.5), "tanhshrink": nn.Tanhshrink,
    "softshrink": lambda: nn.Softshrink(0.2), "hardshrink": nn.Hardshrink, "rrelu": lambda: nn.RReLU(0.1, 0.4).eval(), "prelu": nn.PReLU,
    "prelu_channels": lambda: nn.PReLU(4),
}.items()}


def over(make, *sizes):
    """Behind a Linear over the last dimension."""
    return lambda: Behind(sizes[-1], make()), wave(*sizes)


def unpool(down, up, *sizes, output_size=None):
    call = lambda then, x: up(*then(x), output_size=output_size)
    return lambda: Behind(sizes[-1], down, call), wave(*sizes)


def fractional(make, function, sample, *sizes):
    """The samples come with the call, so that they are no state."""
    samples = torch.full((*sizes[:2], len(sizes) - 2), sample, dtype=torch.float64)
    call = lambda then, x: function(x, then.kernel_size, then.output_size, then.output_ratio, _random_samples=samples)
    return lambda: Behind(sizes[-1], make(), call), wave(*sizes)


POOL = {
    "max_pool1d": over(lambda: nn.MaxPool1d(2), 2, 3, 7),
    "max_pool2d": over(lambda: nn.MaxPool2d((3, 2), stride=2, padding=1, ceil_mode=True), 2, 3, 6, 5),
    "max_pool2d_dilated": over(lambda: nn.MaxPool2d(2, stride=1, dilation=(2, 1)), 3, 6, 5),
    "max_pool3d": over(lambda: nn.MaxPool3d(2, stride=(1, 2, 1)), 1, 2, 3, 4, 3),
    "max_unpool1d": unpool(nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2), 2, 3, 6),
    "max_unpool2d": unpool(nn.MaxPool2d(2, 2, return_indices=True), nn.MaxUnpool2d(2, 2), 2, 3, 4, 5, output_size=(4, 5)),
    "avg_pool1d": over(lambda: nn.AvgPool1d(3, stride=2, padding=1, count_include_pad=False), 2, 3, 7),
    "avg_pool2d": over(lambda: nn.AvgPool2d((2, 3), ceil_mode=True), 2, 3, 5, 7),
    "avg_pool2d_divisor": over(lambda: nn.AvgPool2d(2, divisor_override=3), 3, 4, 4),
    "avg_pool3d": over(lambda: nn.AvgPool3d(2), 1, 2, 4, 4, 2),
    "lp_pool1d": over(lambda: nn.LPPool1d(4, 2), 2, 3, 7),
    "lp_pool2d": over(lambda: nn.LPPool2d(2, (2, 3), stride=(1, 2), ceil_mode=True), 2, 3, 4, 7),
    "fractional_max_pool2d": fractional(lambda: nn.FractionalMaxPool2d((2, 3), output_size=(4, 2)), nn.functional.fractional_max_pool2d, 0.4, 2, 3, 6, 5),
    "fractional_max_pool3d": fractional(lambda: nn.FractionalMaxPool3d(2, output_ratio=0.5), nn.functional.fractional_max_pool3d, 0.7, 1, 2, 4, 6, 5),
    "adaptive_avg_pool1d": over(lambda: nn.AdaptiveAvgPool1d(3), 2, 3, 7),
    "adaptive_avg_pool2d": over(lambda: nn.AdaptiveAvgPool2d((2, None)), 2, 3, 5, 4),
    "adaptive_avg_pool3d": over(lambda: nn.AdaptiveAvgPool3d((2, 1, 2)), 2, 3, 2, 3),
    "adaptive_max_pool1d": over(lambda: nn.AdaptiveMaxPool1d(3), 3, 7),
    "adaptive_max_pool2d": over(lambda: nn.AdaptiveMaxPool2d(2), 2, 3, 5, 4),
    "adaptive_max_pool3d": over(lambda: nn.AdaptiveMaxPool3d((1, 2, 2)), 2, 3, 2, 3, 4),
}

SHAPE = {
    "flatten": over(nn.Flatten, 2, 3, 4),
    "flatten_dims": over(lambda: nn.Flatten(0, 1), 2, 3, 4),
    "unflatten": over(lambda: nn.Unflatten(1, (2, -1)), 2, 6, 4),
    "pixel_shuffle": over(lambda: nn.PixelShuffle(2), 2, 8, 3, 2),
    "pixel_unshuffle": over(lambda: nn.PixelUnshuffle(2), 3, 4, 6),
    "channel_shuffle": over(lambda: nn.ChannelShuffle(3), 2, 6, 3),
    "upsample_nearest": over(lambda: nn.Upsample(scale_factor=2), 2, 3, 4),
    "upsample_size": over(lambda: nn.Upsample((5, 7), mode="bilinear", align_corners=True), 2, 3, 4, 4),
    "upsample_bicubic": over(lambda: nn.Upsample(scale_factor=(1.5, 2), mode="bicubic"), 2, 3, 4, 4),
    "unfold": over(lambda: nn.Unfold((2, 3), padding=1, stride=(2, 1)), 2, 3, 4, 5),
    "fold": over(lambda: nn.Fold((4, 5), (2, 3), dilation=(1, 2), padding=(0, 1)), 2, 12, 9),
    "zero_pad1d": over(lambda: nn.ZeroPad1d((1, 2)), 2, 3, 4),
    "zero_pad2d": over(lambda: nn.ZeroPad2d(1), 2, 3, 4),
    "zero_pad3d": over(lambda: nn.ZeroPad3d((1, 0, 2, 1, 0, -1)), 2, 3, 2, 3, 4),
    "constant_pad2d": over(lambda: nn.ConstantPad2d((1, 2, 0, 1), 0.5), 2, 3, 3, 4),
    "reflection_pad1d": over(lambda: nn.ReflectionPad1d((2, 1)), 3, 4),
    "reflection_pad2d": over(lambda: nn.ReflectionPad2d(1), 2, 3, 3, 4),
    "reflection_pad3d": over(lambda: nn.ReflectionPad3d(1), 2, 2, 2, 3, 4),
    "replication_pad2d": over(lambda: nn.ReplicationPad2d((3, 1, 0, 2)), 2, 3, 3, 4),
    "replication_pad3d": over(lambda: nn.ReplicationPad3d(1), 2, 2, 2, 3, 4),
    "circular_pad1d": over(lambda: nn.CircularPad1d((3, 1)), 2, 3, 4),
    "circular_pad2d": over(lambda: nn.CircularPad2d((1, 2, 2, 0)), 2, 3, 3, 4),
}


def loss(make, *more, call=lambda then, out, *rest: then(out, *rest)):
    return lambda: Behind(4, make(), call), wave(3, 4), *more


def signs(*sizes):
    return numbers(*sizes, below=2).double() * 2 - 1


def of_logs(then, out, target):
    return then(out.log_softmax(-1), target)


Y, Z, LABELS, WEIGHT = wave(3, 4, k=2), wave(3, 4, k=4), numbers(3, below=4), wave(4).abs() + 0.1
COUNTS, ZERO_OR_ONE = numbers(3, 4, below=5).double(), numbers(3, 4, below=2).double()

LOSS = {
    "mse_loss": loss(nn.MSELoss, Y),
    "mse_loss_sum": loss(lambda: nn.MSELoss(reduction="sum"), Y, call=lambda then, out, y: then(out * 0.1, y * 0.1)),
    "l1_loss_none": loss(lambda: nn.L1Loss(reduction="none"), Y),
    "smooth_l1_loss": loss(lambda: nn.SmoothL1Loss(beta=0.3), Y),
    "huber_loss": loss(lambda: nn.HuberLoss(delta=0.4), Y),
    "poisson_nll_loss": loss(nn.PoissonNLLLoss, COUNTS),
    "poisson_nll_loss_full": loss(lambda: nn.PoissonNLLLoss(full=True, reduction="none"), COUNTS),
    "gaussian_nll_loss": loss(lambda: nn.GaussianNLLLoss(full=True), Y, Y ** 2 + 0.5),
    "kl_div_loss": loss(lambda: nn.KLDivLoss(reduction="batchmean"), Y, call=lambda then, out, y: then(out.log_softmax(-1), y.softmax(-1))),
    "kl_div_loss_log": loss(lambda: nn.KLDivLoss(log_target=True), Y, call=lambda then, out, y: then(out.log_softmax(-1), y.log_softmax(-1))),
    "cross_entropy": loss(nn.CrossEntropyLoss, LABELS),
    "cross_entropy_options": loss(lambda: nn.CrossEntropyLoss(WEIGHT, ignore_index=3, label_smoothing=0.1), LABELS),
    "cross_entropy_sum": loss(lambda: nn.CrossEntropyLoss(reduction="sum"), Y.softmax(-1)),
    "nll_loss": loss(lambda: nn.NLLLoss(WEIGHT), LABELS, call=of_logs),
    "bce_loss": loss(lambda: nn.BCELoss(WEIGHT), ZERO_OR_ONE, call=lambda then, out, y: then(out.sigmoid(), y)),
    "bce_with_logits": loss(lambda: nn.BCEWithLogitsLoss(pos_weight=WEIGHT), ZERO_OR_ONE),
    "bce_with_logits_none": loss(lambda: nn.BCEWithLogitsLoss(WEIGHT, reduction="none"), ZERO_OR_ONE),
    "soft_margin": loss(nn.SoftMarginLoss, signs(3, 4)),
    "multi_margin": loss(lambda: nn.MultiMarginLoss(2, 0.7, WEIGHT), LABELS),
    "multilabel_margin": loss(nn.MultiLabelMarginLoss, torch.tensor([[1, 3, -1, 0], [0, -1, 2, 1], [2, 0, 1, 3]])),
    "multilabel_soft_margin": loss(lambda: nn.MultiLabelSoftMarginLoss(WEIGHT), ZERO_OR_ONE),
    "hinge_embedding": loss(lambda: nn.HingeEmbeddingLoss(0.8), signs(3, 4)),
    "margin_ranking": loss(lambda: nn.MarginRankingLoss(0.3), Y, signs(3, 4)),
    "cosine_embedding": loss(lambda: nn.CosineEmbeddingLoss(0.2), Y, signs(3)),
    "triplet_margin": loss(nn.TripletMarginLoss, Y, Z),
    "triplet_margin_swap": loss(lambda: nn.TripletMarginLoss(2, 1, swap=True), Y, Z),
    "cosine_similarity": loss(nn.CosineSimilarity, Y),
    "pairwise_distance": loss(lambda: nn.PairwiseDistance(3, keepdim=True), Y),
    "ctc_loss": (lambda: Behind(5, nn.CTCLoss(blank=1), lambda then, out, y: then(out.log_softmax(-1), y, (6, 5), (3, 2))),
                 wave(6, 2, 5), torch.tensor([[2, 0, 4], [3, 3, 0]])),
}

class Together(nn.Module):
    """A layer whose results are given in one; call: how it is called with the inputs."""
    def __new__(cls, layer, call=lambda forward, *inputs: forward(*inputs)):
        forward = layer.forward
        layer.forward = lambda *inputs: together(call(forward, *inputs))
        return layer


def together(results):
    """All tensors of nested results."""
    if isinstance(results, torch.Tensor):
        return results
    return torch.cat([together(r).flatten() for r in results if r is not None])


def attention(*inputs, call=lambda forward, *inputs: forward(*inputs), **options):
    def attend(forward, *inputs):
        output, weights = call(forward, *inputs)
        return output if weights is None else [output, weights]
    return lambda: Together(nn.MultiheadAttention(6, options.pop("num_heads", 2), **options), attend), *inputs


Q, K, V = wave(3, 2, 6), wave(4, 2, 6, k=1), wave(4, 2, 6, k=2)
PADDING, MASK, ADDED = torch.tensor([[0, 0, 1, 0], [0, 1, 0, 1]]).bool(), numbers(3, 4, below=3) == 0, wave(4, 3, 4, k=3)
CAUSAL4 = torch.ones(4, 4).triu(1).bool()

ATTENTION = {
    "attention": attention(Q, K, V),
    "attention_batch_first": attention(wave(2, 3, 6), wave(2, 4, 6, k=1), wave(2, 4, 6, k=2), bias=False, batch_first=True),
    "attention_one": attention(wave(3, 6), wave(4, 6, k=1), wave(4, 6, k=2)),
    "attention_sizes": attention(Q, wave(4, 2, 3), wave(4, 2, 5), kdim=3, vdim=5),
    "attention_rows": attention(Q, K, V, PADDING, MASK, add_bias_kv=True, add_zero_attn=True,
                                call=lambda f, q, k, v, p, m: f(q, k, v, key_padding_mask=p, attn_mask=m)),
    "attention_heads": attention(Q, K, V, ADDED, PADDING,
                                 call=lambda f, q, k, v, m, p: f(q, k, v, key_padding_mask=p, attn_mask=m, average_attn_weights=False)),
    "attention_no_weights": attention(Q, K, V, PADDING, MASK,
                                      call=lambda f, q, k, v, p, m: f(q, k, v, key_padding_mask=p, attn_mask=m, need_weights=False)),
    "attention_causal": attention(wave(4, 2, 6), num_heads=3, call=lambda f, x: f(x, x, x, attn_mask=CAUSAL4, need_weights=False, is_causal=True)),
}

POST = dict(dim_feedforward=8, dropout=0.0)
PRE = dict(dim_feedforward=8, dropout=0.0, activation="gelu", layer_norm_eps=1e-3, batch_first=True, norm_first=True, bias=False)
CAUSAL3 = torch.ones(3, 3).triu(1).bool()


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, **POST), 2, nn.LayerNorm(4), enable_nested_tensor=False)


def decoder():
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, **PRE), 2)


TRANSFORMER = {
    "encoder_layer": (lambda: nn.TransformerEncoderLayer(4, 2, **POST), wave(3, 2, 4)),
    "encoder_layer_first": (lambda: Together(nn.TransformerEncoderLayer(4, 2, **PRE), lambda f, x, p: f(x, src_key_padding_mask=p)),
                            wave(2, 3, 4), torch.tensor([[0, 0, 1], [0, 1, 0]]).bool()),
    "encoder": (lambda: Together(encoder(), lambda f, x: f(x, mask=CAUSAL3, is_causal=True)), wave(3, 2, 4)),
    "decoder_layer": (lambda: nn.TransformerDecoderLayer(4, 2, **POST), wave(3, 2, 4), wave(5, 2, 4, k=1)),
    "decoder": (lambda: Together(decoder(), lambda f, t, m, mask, p: f(t, m, tgt_mask=mask, memory_key_padding_mask=p, tgt_is_causal=True)),
                wave(2, 3, 4), wave(2, 5, 4, k=1), CAUSAL3, torch.tensor([[0, 0, 1, 0, 0], [0, 0, 0, 1, 1]]).bool()),
}

def transformer(options, call, *inputs):
    return lambda: Together(nn.Transformer(4, 2, 1, 2, **options), call), *inputs


TRANSFORMER |= {
    "transformer": transformer(POST, lambda f, s, t: f(s, t), wave(5, 2, 4), wave(3, 2, 4, k=1)),
    "transformer_masks": transformer(PRE, lambda f, s, t, mask, p: f(s, t, tgt_mask=mask, src_key_padding_mask=p, memory_key_padding_mask=p, tgt_is_causal=True),
                                     wave(2, 5, 4), wave(2, 3, 4, k=1), CAUSAL3, torch.tensor([[0, 0, 1, 0, 0], [0, 0, 0, 1, 1]]).bool()),
    "transformer_one": transformer(POST, lambda f, s, t: f(s, t), wave(5, 4), wave(3, 4, k=1)),
}


def adaptive_softmax(call, *inputs, **options):
    return lambda: Together(nn.AdaptiveLogSoftmaxWithLoss(6, 9, [3, 5], **options), call), *inputs


ADAPTIVE = {
    "adaptive_softmax": adaptive_softmax(lambda f, x, y: list(f(x, y)), wave(7, 6), numbers(7, below=9), div_value=2.0),
    "adaptive_softmax_bias": adaptive_softmax(lambda f, x, y: f(x, y).loss, wave(7, 6), numbers(7, below=9), div_value=1.5, head_bias=True),
    "adaptive_softmax_one": adaptive_softmax(lambda f, x, y: list(f(x, y)), wave(6), torch.tensor(4)),
}


X = wave(4, 2, 3)


def two_states(forward, x, *state):
    return forward(x, state) if state else forward(x)


RECURRENT = {
    "rnn": (lambda: Together(nn.RNN(3, 5)), X),
    "rnn_relu": (lambda: Together(nn.RNN(3, 2, 2, nonlinearity="relu", bias=False)), X, wave(2, 2, 2)),
    "rnn_both_ways": (lambda: Together(nn.RNN(3, 2, bidirectional=True)), X, wave(2, 2, 2)),
    "gru": (lambda: Together(nn.GRU(3, 4)), X),
    "gru_two": (lambda: Together(nn.GRU(3, 2, 2, batch_first=True, bidirectional=True)), X, wave(4, 4, 2)),
    "gru_one": (lambda: Together(nn.GRU(3, 2)), wave(4, 3), wave(1, 2)),
    "lstm": (lambda: Together(nn.LSTM(3, 4)), X),
    "lstm_two": (lambda: Together(nn.LSTM(3, 2, 2, batch_first=True, bidirectional=True), two_states), X, wave(4, 4, 2), wave(4, 4, 2, k=1)),
    "lstm_projected": (lambda: Together(nn.LSTM(3, 5, 2, bias=False, bidirectional=True, proj_size=2), two_states),
                       X, wave(4, 2, 2), wave(4, 2, 5, k=1)),
    "lstm_one": (lambda: Together(nn.LSTM(3, 2)), wave(4, 3)),
    "rnn_cell": (lambda: nn.RNNCell(3, 4), wave(2, 3), wave(2, 4)),
    "gru_cell": (lambda: nn.GRUCell(3, 4), wave(3), wave(4)),
    "gru_cell_zero": (lambda: nn.GRUCell(3, 4, bias=False), wave(2, 3)),
    "lstm_cell": (lambda: StackedCell(), wave(2, 3), wave(2, 4), wave(2, 4, k=1)),
}


class StackedCell(nn.LSTMCell):
    def __init__(self):
        super().__init__(3, 4)

    def forward(self, x, h, c):
        return torch.cat(super().forward(x, (h, c)))


CASES = LINEAR | CONVOLUTION | NORMALIZATION | ACTIVATION | POOL | SHAPE | LOSS | ATTENTION | TRANSFORMER | ADAPTIVE | RECURRENT


def set_parameters(module):
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(sines(p.shape, 0.9, sum(map(ord, name)) % 17, 0.5))


def loss_of(out):
    return ((out - sines(out.shape, 0.3, torch.pi / 2, 1)) ** 2).mean()


def digest(t):
    n = torch.arange(t.numel())
    flat = t.detach().reshape(-1).double()
    sums = [(flat * ((n * 13) % 17 + 1)).sum(), (flat * ((n * 5) % 23 - 11)).sum()]
    return [str(list(t.shape)).replace(" ", ""), *(f"{float(s):.15g}" for s in sums)]


def trained(make, *inputs):
    module = make().double()
    set_parameters(module)
    parameters = list(module.parameters())
    for _ in range(20):
        loss_of(module(*inputs)).backward()
        with torch.no_grad():
            for p in parameters:
                if p.grad is not None:
                    p -= 0.1 * p.grad
                    p.grad = None
    module.eval()
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    return tensors | {"output": module(*inputs)}


def main():
    warnings.simplefilter("ignore")
    rows = []
    for name, case in CASES.items():
        for tensor, value in trained(*case).items():
            rows.append("\t".join([name, tensor, *digest(value)]))
    (HERE / "layer_training.tsv").write_text("\n".join(rows) + "\n")


main()
