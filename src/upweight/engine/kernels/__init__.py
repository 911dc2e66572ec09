"""Whole networks in one kernel, for NVIDIA's Hopper GPUs in bfloat16; ``docs/kernels.md`` has the pictures.

In reading order: ``tiles`` (how rows become work, and the frame of all kernels), ``forward``, ``backward`` and
``weight_gradient`` (one kernel each), ``networks`` (the function that is differentiated and mapped over agents), ``choice``
(where it is used). Needs jax 0.11; nothing here is imported elsewhere.
"""
