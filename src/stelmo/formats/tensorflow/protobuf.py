"""Bytes of a protocol buffer → numbers and messages by field number. Trusts no byte; knows no schema."""

COPY_AGAIN = "copy the checkpoint's files again from where they were saved"

Fields = dict[int, list[int | bytes]]


class RefusedError(Exception):
    """Bytes that say what cannot be; becomes a ModelError where the file's name is known."""

    def __init__(self, found: str, way_out: str = COPY_AGAIN) -> None:
        super().__init__(found)
        self.found, self.way_out = found, way_out


def fields(message: bytes) -> Fields:
    """A protocol buffer → its values by field number."""
    found: Fields = {}
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        value, at = _field(message, at, tag & 7)
        found.setdefault(tag >> 3, []).append(value)
    return found


def _field(message: bytes, at: int, wire: int) -> tuple[int | bytes, int]:
    match wire:
        case 0:
            return varint(message, at)
        case 1 | 5:
            width = 8 if wire == 1 else 4
            return int.from_bytes(take(message, at, width), "little"), at + width
        case 2:
            length, at = varint(message, at)
            return take(message, at, length), at + length
        case _:
            raise RefusedError(f"a field has wire type {wire}, only 0, 1, 2 and 5 are expected")


def number(message: Fields, field: int) -> int:
    """The field's last value; 0 where it is absent, as the format says."""
    value = message.get(field, [0])[-1]
    if not isinstance(value, int) or value >= 1 << 63:
        raise RefusedError(f"field {field} is {value!r:.40}, a number of at least 0 is expected")
    return value


def messages(message: Fields, field: int) -> list[bytes]:
    values = message.get(field, [])
    found = [value for value in values if isinstance(value, bytes)]
    if len(found) < len(values):
        raise RefusedError(f"field {field} is a number, a message is expected")
    return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, lowest first; the eighth bit says that more follow."""
    value = 0
    for i, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80 and value < 1 << 64:
            return value, at + i + 1
    raise RefusedError(f"no whole number is at byte {at} of {len(data)}")


def take(data: bytes, at: int, length: int) -> bytes:
    """Bytes that must be there."""
    if min(at, length) < 0 or at + length > len(data):
        raise RefusedError(f"bytes {at} to {at + length} are wanted, there are {len(data)}")
    return data[at : at + length]
