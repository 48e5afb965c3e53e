"""The joint graphs of the programs of `./dev bench partition` as PyTorch sees them, and what its min-cut saves of each.

Writes tests/torch/min_cut_sets.txt, which tests/unit/partition/torch_min_cut_test.cpp reads: one line for a graph, for each of
its inputs, equations and outputs, and for the saved set. Run by hand where PyTorch is installed:

    python tests/torch/min_cut_sets.py
"""
import operator
import pathlib

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.nn.attention import SDPBackend, sdpa_kernel

from saved_bytes import PROGRAMS

aten = torch.ops.aten

# What ATen and ops.def call differently. A convolution is a contraction by another name.
NAMES = {
    "t": "permute", "unsqueeze": "view", "squeeze": "view", "alias": "view", "getitem": "view", "_unsafe_view": "clone",
    "arange": "iota", "full_like": "full", "scalar_tensor": "full", "new_zeros": "full", "_to_copy": "convert", "clamp": "clamp_min",
    "rand_like": "random_bits", "index": "gather", "index_put": "scatter_add", "scatter": "scatter_add",
    "convolution": "bmm", "convolution_backward": "bmm",
}
VIEWS = {"view", "permute", "expand", "slice", "select"}
DTYPES = {torch.float32: "f32", torch.int64: "i64", torch.bool: "bool", torch.int32: "i32"}


def one_result_each():
    """Decompositions to core ATen, further where an operator of the forward half has several results."""
    table = dict(core_aten_decompositions())
    table.update(get_decompositions([aten._softmax, aten._log_softmax, aten.nll_loss_forward, aten.nll_loss_backward,
                                     aten._softmax_backward_data, aten._log_softmax_backward_data, aten.embedding,
                                     aten.embedding_dense_backward, aten.native_dropout, aten.native_layer_norm,
                                     aten.native_layer_norm_backward, aten._native_batch_norm_legit_no_training,
                                     aten._native_batch_norm_legit, aten.native_batch_norm_backward, aten.addmm, aten.split,
                                     aten.transpose]))
    table[aten.var_mean.correction] = lambda x, dim=None, *, correction=None, keepdim=False: (
        aten.var.correction(x, dim, correction=correction, keepdim=keepdim), aten.mean.dim(x, dim, keepdim))
    table[aten.split_with_sizes.default] = parts
    table.pop(aten.var.correction, None)
    return table


def parts(x, sizes, dim=0):
    ends = [sum(sizes[:i + 1]) for i in range(len(sizes))]
    return [aten.slice.Tensor(x, dim, end - size, end) for size, end in zip(sizes, ends)]


def our_name(node):
    name = "getitem" if node.target is operator.getitem else node.target._overloadpacket.__name__
    return NAMES.get(name, name)


def type_of(node):
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)):
        value = next(v for v in value if v is not None)
    return f"{DTYPES[value.dtype]} {'x'.join(map(str, value.shape)) or '-'}"


def describe(name, graph, forward_outputs, saved):
    lines = [f"graph {name}"]
    outputs = graph.find_nodes(op="output")[0].args[0]
    for node in graph.nodes:
        if node.op == "placeholder":
            role = "tangent" if "tangents" in node.name else "primal"
            lines.append(f"input {node.name} {type_of(node)} {role}")
        elif node.op == "call_function":
            operands = " ".join(n.name for n in node.all_input_nodes)
            lines.append(f"equation {node.name} {our_name(node)} {type_of(node)} {operands}".rstrip())
    for i, node in enumerate(outputs):
        if node is not None:
            lines.append(f"output {node.name} {'forward' if i < forward_outputs else 'gradient'}")
    lines.append(f"saved {' '.join(saved)}")
    return "\n".join(lines)


def storage(node):
    """What a chain of views shows; a placeholder's costs nothing to save."""
    while node.op == "call_function" and our_name(node) in VIEWS:
        node = node.args[0]
    return node


def min_cut_bytes(run):
    """Bytes beyond inputs and parameters."""
    bases = {storage(node) for node in partitioned(run)[2]}
    values = [n.meta["val"] for n in bases if n.op != "placeholder"]
    return sum(v.numel() * v.element_size() for v in values)


def joint_and_saved(name, run):
    joint, forward_outputs, saved = partitioned(run)
    return describe(name, joint, forward_outputs, [n.name for n in saved])


def partitioned(run):
    """The joint graph, the number of forward's outputs, and the nodes that its min-cut saves."""
    found = []

    def partition(joint, inputs, *, num_fwd_outputs, **options):
        joint.graph.eliminate_dead_code()
        joint.graph = fx_graph_cse(joint.graph)
        forward, backward = min_cut_rematerialization_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
        returned = forward.graph.find_nodes(op="output")[0].args[0]
        found.append((joint.graph, num_fwd_outputs, returned[num_fwd_outputs:]))
        return forward, backward

    def nop(g, _):
        return make_boxed_func(g.forward)

    backend = aot_autograd(fw_compiler=nop, bw_compiler=nop, partition_fn=partition,
                           decompositions=one_result_each())
    torch._dynamo.reset()
    with sdpa_kernel(SDPBackend.MATH):
        torch.compile(run, backend=backend, fullgraph=True, dynamic=False)().backward()
    assert len(found) == 1
    return found[0]


def main():
    torch.manual_seed(0)
    texts = [joint_and_saved(name, make()[1]) for name, make in PROGRAMS.items()]
    pathlib.Path(__file__).with_suffix(".txt").write_text(f"# PyTorch {torch.__version__.split('+')[0]}\n" + "\n".join(texts) + "\n")


if __name__ == "__main__":
    main()
