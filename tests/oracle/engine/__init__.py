"""What both judges share inside their environments: a GPU that is not there, tensors without values, and questions
answered by processes that fork. Nothing else of this project is imported here.

Whatever would be on the GPU is on PyTorch's `meta` device, so that the live meta storages are what the GPU would hold.
"""
