"""Conditions: what a trigger's `when` says, as a function from an event to a verdict with its reason.

    condition = compile('event.data.severity == "high"')
    verdict = condition.evaluate(activation(event, data))

One activation is made for an event and shared by all its triggers.
"""

from headgate.common.conditions.cel import (
    Activation,
    Condition,
    ConditionError,
    Verdict,
    activation,
    compile,
    event_view,
    expression,
)
from headgate.common.conditions.fields import EVENT_FIELDS, no_such_field

__all__ = [
    "EVENT_FIELDS",
    "Activation",
    "Condition",
    "ConditionError",
    "Verdict",
    "activation",
    "compile",
    "event_view",
    "expression",
    "no_such_field",
]
