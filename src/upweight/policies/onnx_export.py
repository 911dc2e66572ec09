"""A policy's deterministic action as an ONNX graph, for robots and services without Python."""

from pathlib import Path
from typing import Any

import numpy as np

from upweight.base.files import atomic_target
from upweight.base.optional import require
from upweight.policies.policy import Policy

OPSET = 17


def export_onnx(policy: Policy, path: str | Path) -> None:
    """Write ``observations`` [E, d] float32 -> ``actions`` ([E, a] float32, or [E] int64 if discrete).

    Examples:
        >>> uw.export_onnx(policy, "policy.onnx")
    """
    onnx = require("onnx", extra="onnx", purpose="exporting to ONNX")
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes, constants = [], []

    def constant(name: str, value: Any) -> str:
        constants.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    x = node("Sub", ["observations", constant("mean", policy.observation_mean.astype(np.float32))], "centred")
    x = node("Div", [x, constant("scale", policy.observation_scale.astype(np.float32))], "normalised")
    for number, (weights, bias) in enumerate(policy.layers):
        tensors = [constant(f"w{number}", weights.astype(np.float32)), constant(f"b{number}", bias.astype(np.float32))]
        x = node("Gemm", [x, *tensors], f"linear{number}")
        if number + 1 < len(policy.layers):
            x = node("Relu", [x], f"relu{number}")
    if policy.is_discrete:
        node("ArgMax", [x], "actions", axis=1, keepdims=0)
        output = helper.make_tensor_value_info("actions", kinds.INT64, ["batch"])
    else:
        assert policy.action_low is not None and policy.action_high is not None
        size = len(policy.action_low)
        if policy.kind == "tanh_gaussian":
            bounds = [
                constant("from", np.array([0])),
                constant("to", np.array([size])),
                constant("axis", np.array([1])),
            ]
            x = node("Slice", [x, *bounds], "means")
        x = node("Tanh", [x], "squashed")
        half = ((policy.action_high - policy.action_low) / 2).astype(np.float32)
        x = node("Mul", [x, constant("half_range", half)], "scaled")
        node("Add", [x, constant("middle", (policy.action_low + half).astype(np.float32))], "actions")
        output = helper.make_tensor_value_info("actions", kinds.FLOAT, ["batch", size])
    observations = helper.make_tensor_value_info("observations", kinds.FLOAT, ["batch", policy.observation_size])
    graph = helper.make_graph(nodes, "policy", [observations], [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    onnx.checker.check_model(model)
    with atomic_target(Path(path)) as target:
        target.write_bytes(model.SerializeToString())
