"""Attention backends in vLLM's sources: the cache types, blocks and compute capabilities that each takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from typing import Any

CAPABILITIES = ((8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0))
"""Those of the catalogue's GPUs."""


_OTHER_DEVICES = "XPU"
"""Classes for Intel's GPUs bear the names of those for CUDA."""


def attention_backends(sources: Mapping[str, ast.Module]) -> dict[str, dict[str, Any]]:
    """Backends by name; what a class does not say is its base's."""
    classes = {node.name: node for node in _classes(sources)}
    found = {}
    for node in classes.values():
        name = _constant(_of_class(classes, node, "get_name"))
        if name:
            found[str(name)] = {
                "cache_types": _texts(_of_class(classes, node, "supported_kv_cache_dtypes")),
                "blocks": _blocks(_of_class(classes, node, "get_supported_kernel_block_sizes")),
                "capabilities": _capabilities(_of_class(classes, node, "supports_compute_capability")),
            }
    return dict(sorted(found.items()))


def _classes(sources: Mapping[str, ast.Module]) -> Iterator[ast.ClassDef]:
    patterns = ("vllm/v1/attention/*", "vllm/attention/backends/abstract.py")
    for path, tree in sources.items():
        if any(fnmatch(path, pattern) for pattern in patterns):
            found = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
            yield from (node for node in found if not node.name.startswith(_OTHER_DEVICES))


def _of_class(classes: Mapping[str, ast.ClassDef], node: ast.ClassDef, name: str) -> ast.expr | None:
    """The expression that a class, or a base of it, assigns to a name or returns from a method of that name."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            returns = [each.value for each in ast.walk(statement) if isinstance(each, ast.Return)]
            return returns[0] if len(returns) == 1 else None
        if isinstance(statement, ast.AnnAssign) and getattr(statement.target, "id", "") == name:
            return statement.value
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            return _of_class(classes, classes[base.id], name)
    return None


def _constant(value: ast.expr | None) -> Any:
    return value.value if isinstance(value, ast.Constant) else None


def _texts(value: ast.expr | None) -> list[str] | None:
    if not isinstance(value, ast.List):
        return None
    return [str(_constant(each)) for each in value.elts]


def _blocks(value: ast.expr | None) -> list[str] | None:
    """Tokens of a block that the kernel takes: `64`, or `MultipleOf(16)`."""
    return [ast.unparse(each) for each in value.elts] if isinstance(value, ast.List) else None


def _capabilities(value: ast.expr | None) -> list[str] | None:
    """Compute capabilities of `CAPABILITIES` for which an expression about `capability` holds."""
    if value is None:
        return None
    try:
        return [f"{major}.{minor}" for major, minor in CAPABILITIES if _holds(value, (major, minor))]
    except NotImplementedError:
        return None


def _holds(node: ast.expr, capability: tuple[int, int]) -> Any:
    """The value of an expression of comparisons. Raises NotImplementedError for any other."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name(id="capability"):
            return capability
        case ast.Attribute(value=ast.Name(id="capability"), attr="major"):
            return capability[0]
        case ast.Attribute(value=ast.Name(id="capability"), attr="minor"):
            return capability[1]
        case ast.Tuple() | ast.List():
            return tuple(_holds(each, capability) for each in node.elts)
        case ast.Call(func=ast.Name(id="DeviceCapability")):
            return tuple(_holds(each, capability) for each in node.args)
        case ast.BoolOp(op=ast.And()):
            return all(_holds(each, capability) for each in node.values)
        case ast.BoolOp(op=ast.Or()):
            return any(_holds(each, capability) for each in node.values)
        case ast.Compare(ops=[operation], comparators=[other]):
            return _compared(operation, _holds(node.left, capability), _holds(other, capability))
    raise NotImplementedError(ast.unparse(node))


def _compared(operation: ast.cmpop, left: Any, right: Any) -> bool:
    match operation:
        case ast.Eq():
            return bool(left == right)
        case ast.In():
            return left in right
        case ast.GtE():
            return bool(left >= right)
        case ast.Gt():
            return bool(left > right)
        case ast.LtE():
            return bool(left <= right)
        case ast.Lt():
            return bool(left < right)
    raise NotImplementedError(ast.dump(operation))
