"""Trajectories on an accelerator, one thread each.

The kernels are written from the model, in plain C.
"""

from kapitza.flow.device.card import DeviceError, rows_per_launch
from kapitza.flow.device.jobs import (
    Task,
    growth_on_device,
    nets_on_device,
    prepare_nets,
    propagate_on_device,
    strobe_on_device,
)
