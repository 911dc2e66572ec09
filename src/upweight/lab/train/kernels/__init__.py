"""Whole networks in one kernel, for NVIDIA's Hopper GPUs in bfloat16; ``docs/kernels.md`` has the pictures.

In reading order: ``tiles`` (how rows become work, and the frame of all kernels), ``passes`` (the three kernels), ``networks``
(the function that is differentiated and mapped over agents), ``choice`` (where it is used). Nothing is imported here.
"""
