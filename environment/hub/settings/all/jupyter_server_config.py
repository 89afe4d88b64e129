# For every learner's server; the hub's configuration says which variables it gives them.
import os

from jupyter_client.localinterfaces import local_ips

c = get_config()  # noqa: F821

# As `cargo lab start` has it: a kernel may have to wait for others, and loses its name after Jupyter's minute.
c.MultiKernelManager.kernel_info_timeout = 600
c.MappingKernelManager.kernel_info_timeout = 600
c.LabApp.extension_manager = "readonly"

# A kernel holds half a gigabyte while nobody uses it; a page left open in a browser is no use.
c.MappingKernelManager.cull_idle_timeout = int(os.environ["QUANTLAB_IDLE_KERNEL"])
c.MappingKernelManager.cull_interval = min(300, int(os.environ["QUANTLAB_IDLE_KERNEL"]))
c.MappingKernelManager.cull_connected = True

# A kernel's messages go over TCP, unencrypted: so on an address that the firewall keeps for this user.
if address := os.environ.get("QUANTLAB_KERNEL_ADDRESS"):
    # All of 127.0.0.0/8 is this machine, but Jupyter looks for the addresses that are listed.
    local_ips().append(address)
    c.KernelManager.ip = address
