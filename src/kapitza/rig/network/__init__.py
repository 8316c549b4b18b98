"""Rig on another machine, over ZeroMQ.

The rig runs in another process or on another machine (the extra `kapitza[rig]`).
"""

from kapitza.rig.network.client import RemoteRig
from kapitza.rig.network.server import RigServer, serve_rig
from kapitza.rig.network.sockets import Keys
