"""What runs inside the environment that has SGLang and PyTorch.

SGLang's server arguments with their resolution, rank layout, model classes, quantisation methods, weight processing and
the bytes of a token in its cache run as they are. Invented are the GPU, the process groups, and the compiled kernels.

It relies on SGLang's internals, so that another release may need repairs here.
"""
