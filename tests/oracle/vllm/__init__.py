"""What runs inside the environment that has vLLM and PyTorch.

vLLM's engine arguments, configuration, rank layout, model classes, quantisation methods, weight processing and KV cache
planner run as they are. Invented are the GPU's name and capability, the process groups, and the compiled extensions:
their operators answer which compute capability they support and otherwise run vLLM's own shape functions.

It relies on vLLM's internals, so that another release may need repairs here.
"""
