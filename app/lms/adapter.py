"""How prompts are written and replies are read: DSPy's chat format, read with some patience.

Prompts are DSPy's, byte for byte, for the shipped model is trained on them. Replies are read as DSPy reads them, after
the small slips of weak models are mended, which no prompt cures and which lose nothing: a marker on the line of a
value, spaces lost in a marker, code fences around a reply or a value, ``True.`` for ``True``, ``yes`` for ``Yes``.
"""

import re
from typing import Any, Literal, get_args, get_origin

import dspy

_FENCE = re.compile(r"^\s*```[\w-]*\s*$")


class PatientChatAdapter(dspy.ChatAdapter):
    """`dspy.ChatAdapter` with the same prompts, a single attempt, and small slips in replies mended.

    There is no second attempt in JSON: it would double the calls of a failing stage and hide the failure, which KEQA
    records and degrades from instead (one bad sample costs one sample).
    """

    def __init__(self) -> None:
        """Without DSPy's fallback to JSON."""
        super().__init__(use_json_adapter_fallback=False)

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        """Read a reply.

        Args:
            signature: What was asked.
            completion: The reply.

        Returns:
            A value for each output field.

        Raises:
            AdapterParseError: A field is missing, or its value is not of its type.
        """
        fields: dict[str, Any] = super().parse(signature, mend(signature, completion))
        return fields


def adapter() -> PatientChatAdapter:
    """The adapter that every KEQA program uses."""
    return PatientChatAdapter()


def mend(signature: type[dspy.Signature], completion: str) -> str:
    """A reply with its small slips mended; one without slips keeps its meaning.

    Args:
        signature: What was asked.
        completion: The reply.

    Returns:
        The reply with each marker on a line of its own, values free of fences, and yes-or-no and listed values as the
        signature spells them.
    """
    names = "|".join(re.escape(name) for name in [*signature.output_fields, "completed"])
    pieces = re.split(rf"\[\[\s*##\s*({names})\s*##\s*\]\]", completion)
    mended = [pieces[0]] if pieces[0].strip() else []
    for name, value in zip(pieces[1::2], pieces[2::2], strict=True):
        mended.append(f"[[ ## {name} ## ]]")
        if name == "completed":
            break
        mended.append(_value(_unfenced(value), signature.output_fields[name].annotation))
    return "\n".join(mended)


def _unfenced(value: str) -> str:
    """A value without a code fence around it, or without half of one that was around the whole reply."""
    lines = value.strip().split("\n")
    fences = sum(1 for line in lines if _FENCE.match(line))
    if len(lines) > 1 and fences and _FENCE.match(lines[-1]) and (fences % 2 or _FENCE.match(lines[0])):
        del lines[-1]
        if fences % 2 == 0:
            del lines[0]
    return "\n".join(lines)


def _value(value: str, annotation: Any) -> str:
    """A yes-or-no or listed value as the type spells it, where what was written can only mean that."""
    if annotation is bool:
        allowed = ["True", "False", "yes", "no"]
    elif get_origin(annotation) is Literal:
        allowed = [option for option in get_args(annotation) if isinstance(option, str)]
    else:
        return value
    bare = value.strip().strip("*`\"'").rstrip(".!").strip().casefold()
    meant = [option for option in allowed if option.casefold() == bare]
    return meant[0] if len(meant) == 1 else value
