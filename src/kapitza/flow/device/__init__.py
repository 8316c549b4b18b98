"""Many trajectories on an accelerator: kernels written from the model, plain C, one thread per trajectory."""

from kapitza.flow.device.card import DeviceError, rows_per_launch
from kapitza.flow.device.jobs import (
    Task,
    growth_on_device,
    nets_on_device,
    prepare_nets,
    propagate_on_device,
    strobe_on_device,
)
