"""How fast a planned server is: the bound from physics, and where there is evidence the likely range."""

from planner.speed.plan_speed import speed_at, speeds_over_users, with_speed, work_of_plan

__all__ = ["speed_at", "speeds_over_users", "with_speed", "work_of_plan"]
