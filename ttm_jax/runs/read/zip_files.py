"""Zip archives read within limits: nothing is unpacked before its size is known to be right."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ttm_jax.runs.read.fields import Place
from ttm_jax.runs.read.json_files import open_file

_END = struct.Struct("<4s4H2LH")  # the record at the end of an archive without a comment
_LOCATOR = struct.Struct("<4sLQL")  # zip64: for more than 65,535 members
_END64 = struct.Struct("<4sQ2H2L4Q")
_DIRECTORY_ENTRY = 256  # bytes that the directory of an archive needs for a short name
_ENCRYPTED = 0x1
_BROKEN = (
    OSError, EOFError, ValueError, OverflowError, RuntimeError, KeyError, IndexError,
    struct.error, zlib.error, zipfile.BadZipFile, zipfile.LargeZipFile,
)  # fmt: skip


class SafeZip:
    """An open archive whose members have been counted."""

    def __init__(self, archive: zipfile.ZipFile, place: Place) -> None:
        self._archive, self._place = archive, place
        self.names = archive.namelist()

    def read(self, name: str, most: int) -> bytes:
        """One member of at most this many bytes."""
        info = self._archive.getinfo(name)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise self._place.error(f"{name} is compressed in an unusual way")
        if info.flag_bits & _ENCRYPTED:
            raise self._place.error(f"{name} is encrypted")
        if info.file_size > most:
            raise self._place.error(f"{name} has {info.file_size} bytes; expected at most {most}")
        try:
            with self._archive.open(info) as member:
                data = member.read(most + 1)
        except _BROKEN as error:
            raise self._place.error(f"{name} is damaged: {error}") from None
        if len(data) != info.file_size:
            raise self._place.error(f"{name} is not as long as the archive says")
        return data


@contextmanager
def open_zip(path: Path, limit: str, most_members: int) -> Iterator[SafeZip]:
    """An archive of no more than the allowed size and number of members."""
    place = Place(path)
    with open_file(path, limit) as file:
        try:
            _check_directory(file, most_members)
            archive = zipfile.ZipFile(file)
        except _BROKEN as error:
            raise place.error(f"cannot be read as a zip archive: {error}") from None
        with archive:
            if len(archive.namelist()) != len(set(archive.namelist())):
                raise place.error("cannot be read as a zip archive: a name appears twice in it")
            yield SafeZip(archive, place)


def _check_directory(file: BinaryIO, most_members: int) -> None:
    """`zipfile` reads the whole directory at once: its size must be plausible before that."""
    size = file.seek(0, io.SEEK_END)
    if size < _END.size:
        raise zipfile.BadZipFile("too short")
    signature, *_, members, directory, _, comment = _END.unpack(_at(file, size - _END.size, _END))
    if signature != b"PK\5\6" or comment:
        raise zipfile.BadZipFile("no directory at its end")
    where = size - _END.size - _LOCATOR.size
    if where >= 0:
        signature, _, end, _ = _LOCATOR.unpack(_at(file, where, _LOCATOR))
        if signature == b"PK\6\7":  # zip64: another record has the sizes, just before this one
            if end != where - _END64.size or end < 0:
                raise zipfile.BadZipFile("no directory at its end")
            *_, members, directory, _ = _END64.unpack(_at(file, end, _END64))
    if members > most_members or directory > most_members * _DIRECTORY_ENTRY:
        raise zipfile.BadZipFile(f"more than {most_members} members")
    file.seek(0)


def _at(file: BinaryIO, position: int, record: struct.Struct) -> bytes:
    file.seek(position)
    return file.read(record.size)
