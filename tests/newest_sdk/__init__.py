"""The program under the newest Kubernetes SDK, since the one it is pinned to is an older one."""
