"""Translates a plan into the arguments of `InferenceServer`."""

from components.arguments import ServerEngine, ServerPods, StartLimits
from config.quantity import quantity_bytes, whole_gibibytes
from config.stack import sections
from engines.plan import Plan
from planner import TimeLimits


def server_engine(plan: Plan, engine: sections.Engine) -> ServerEngine:
    """Returns the engine of a plan. The stack's environment takes precedence over the plan's."""
    return {
        "name": engine.name,
        "image": engine.image,
        "arguments": list(plan.engine_args),
        "environment": {**dict(plan.engine_env), **engine.environment},
        "served_name": engine.served_name,
        "host": engine.host,
        "model_file": plan.model_file,
    }


def server_pods(plan: Plan, engine: sections.Engine) -> ServerPods:
    """Returns the pods of a plan. The memory limit includes `/dev/shm`, because Kubernetes counts it as memory."""
    shared = plan.host.shared_memory_bytes
    request = limit = whole_gibibytes(plan.host.memory_bytes) if plan.host.memory_bytes else None
    if engine.memory:
        request, limit = engine.memory, whole_gibibytes(quantity_bytes(engine.memory) + shared)
    return {
        "replicas": engine.replicas,
        "nodes_per_server": plan.pods.nodes_per_server,
        "gpus_per_pod": plan.pods.gpus_per_pod,
        "cpus": engine.cpus,
        "memory_request": request,
        "memory_limit": limit,
        "shared_memory_bytes": shared,
        "collective_library": plan.host.collective_library,
        "masked_directory": plan.host.masked_directory,
    }


def start_limits(limits: TimeLimits, engine: sections.Engine) -> StartLimits:
    """Returns the time limits of a plan."""
    return {
        "engine_ready_seconds": limits.engine_ready_seconds,
        "startup_period_seconds": limits.startup_period_seconds,
        "startup_failure_threshold": limits.startup_failure_threshold,
        "await_seconds": limits.server_await_seconds,
        "weights_seconds": limits.stage_deadline_seconds,
        "drain_seconds": engine.drain,
    }
