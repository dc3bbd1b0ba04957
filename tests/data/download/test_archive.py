"""Archives that are good, broken and hostile; of the last two nothing may be left on the disk."""

import gzip
import io
import stat
import tarfile
import tracemalloc

import disks
import pytest
from archives import member, tar_of, zip_of
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.data.download.archive import HostileArchive, Limits, unpack
from ttm_jax.errors import InputError

small_disk = disks.small_disk  # fixture
FILES = {"images/a.jpg": b"a" * 1000, "images/deep/b c.jpg": b"b", "empty.txt": b""}


def _unpack(tmp_path, data, limits=None):
    (tmp_path / "archive").write_bytes(data)
    unpack(tmp_path / "archive", tmp_path / "out", limits)


def _assert_nothing_left(tmp_path):
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]


@pytest.mark.parametrize("mode", ["w", "w:gz", "zip"])
def test_good_archives(tmp_path, mode):
    data = zip_of(FILES) if mode == "zip" else tar_of(FILES, mode)
    _unpack(tmp_path, data)
    out = tmp_path / "out"
    found = {p.relative_to(out).as_posix(): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert found == FILES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "out"]


def test_folders_of_their_own_and_a_leading_dot(tmp_path):
    extra = [member(".", tarfile.DIRTYPE), member("./empty", tarfile.DIRTYPE)]
    _unpack(tmp_path, tar_of({"./a/b.txt": b"x"}, extra=extra))
    assert (tmp_path / "out" / "a" / "b.txt").read_bytes() == b"x"
    assert (tmp_path / "out" / "empty").is_dir()


def test_rights_in_the_archive_are_not_taken_over(tmp_path):
    info = tarfile.TarInfo("tool")
    info.mode = 0o6777
    _unpack(tmp_path, tar_of({}, extra=[info]))
    assert stat.S_IMODE((tmp_path / "out" / "tool").stat().st_mode) & 0o7111 == 0


NAMES = [
    "/etc/evil",
    "../evil",
    "images/../../evil",
    "images/..",
    "..\\evil",
    "C:\\evil",
    "C:evil",
    "//server/evil",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_paths_that_lead_out(tmp_path, name, make):
    with pytest.raises(HostileArchive, match="may lie outside its folder"):
        _unpack(tmp_path, make({"good.txt": b"good", name: b"evil"}))
    _assert_nothing_left(tmp_path)
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize(
    "info",
    [
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("link", tarfile.SYMTYPE, "good.txt"),
        member("link", tarfile.LNKTYPE, "good.txt"),
        member("link", tarfile.LNKTYPE, "../../etc/passwd"),
        member("device", tarfile.CHRTYPE),
        member("pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda info: f"{info.name}-{info.type}-{info.linkname}",
)
def test_links_and_devices_in_tar(tmp_path, info):
    with pytest.raises(HostileArchive, match="link or device"):
        _unpack(tmp_path, tar_of({"good.txt": b"good"}, extra=[info]))
    _assert_nothing_left(tmp_path)


def test_writing_through_a_link(tmp_path):
    """The classic: a link that leads out, then a file below it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    link = member("images", tarfile.SYMTYPE, str(outside))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(link)
        info = tarfile.TarInfo("images/evil")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"evil"))
    with pytest.raises(HostileArchive):
        _unpack(tmp_path, buffer.getvalue())
    assert list(outside.iterdir()) == []


def test_links_in_zip(tmp_path):
    data = zip_of({"link": b"/etc/passwd"}, external_attr=(stat.S_IFLNK | 0o777) << 16)
    with pytest.raises(HostileArchive, match="link or device 'link'"):
        _unpack(tmp_path, data)
    _assert_nothing_left(tmp_path)


def test_encrypted_zip(tmp_path):
    data = bytearray(zip_of({"a": b"secret"}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    with pytest.raises(HostileArchive, match="encrypted member 'a'"):
        _unpack(tmp_path, bytes(data))


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_a_bomb(tmp_path, make):
    data = make({"zeros": bytes(50 << 20)})
    assert len(data) < 1 << 20
    with pytest.raises(HostileArchive, match="unpacks to more than 10 MB"):
        _unpack(tmp_path, data, Limits(bytes=10 << 20))
    _assert_nothing_left(tmp_path)


def test_the_limit_is_on_the_sum(tmp_path):
    data = tar_of({f"{i}": bytes(3 << 20) for i in range(4)})
    with pytest.raises(HostileArchive, match="more than 10 MB"):
        _unpack(tmp_path, data, Limits(bytes=10 << 20))
    _unpack(tmp_path, data, Limits(bytes=12 << 20))


def test_a_zip_that_lies_about_its_size(tmp_path):
    """The directory says 10 bytes; what comes out is what counts, or it is refused as broken."""
    data = bytearray(zip_of({"zeros": bytes(20 << 20)}))
    entry = data.index(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = (10).to_bytes(4, "little")
    with pytest.raises(InputError):
        _unpack(tmp_path, bytes(data), Limits(bytes=10 << 20))
    _assert_nothing_left(tmp_path)


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_too_many_members(tmp_path, make):
    with pytest.raises(HostileArchive, match="more than 5 members"):
        _unpack(tmp_path, make({f"{i}": b"" for i in range(6)}), Limits(members=5))
    _assert_nothing_left(tmp_path)


@pytest.mark.parametrize("names", [("a.jpg", "A.jpg"), ("a/b", "a/./b")])
def test_two_members_for_one_file(tmp_path, names):
    with pytest.raises(HostileArchive, match="twice"):
        _unpack(tmp_path, tar_of(dict.fromkeys(names, b"x")))
    _assert_nothing_left(tmp_path)


def test_a_file_where_a_folder_should_be(tmp_path):
    with pytest.raises(InputError, match="cannot be unpacked"):
        _unpack(tmp_path, tar_of({"a": b"x", "a/b": b"y"}))
    _assert_nothing_left(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK",
        b"no archive at all",
        tar_of(FILES)[:-20],
        tar_of(FILES, "w:xz"),
        zip_of(FILES)[:-30],
    ],
    ids=["empty", "two-bytes", "text", "cut-tar-gz", "tar-xz", "cut-zip"],
)
def test_broken_archives(tmp_path, data):
    with pytest.raises(InputError, match="archive"):
        _unpack(tmp_path, data)
    _assert_nothing_left(tmp_path)


def test_a_changed_byte_in_a_tar_gz(tmp_path):
    """Stored blocks carry no structure that could break: only the checksum at the end tells."""
    plain = tar_of({"a": b"hello " * 100}, "w")
    data = bytearray(gzip.compress(plain, compresslevel=0))
    data[data.index(b"hello hello")] = ord("j")
    with pytest.raises(InputError, match="CRC"):
        _unpack(tmp_path, bytes(data))
    _assert_nothing_left(tmp_path)


def test_a_tar_that_goes_on_after_its_end(tmp_path):
    data = gzip.compress(tar_of({"a": b"x"}, "w") + bytes(64 << 20), compresslevel=1)
    with pytest.raises(HostileArchive, match="goes on after its end"):
        _unpack(tmp_path, data)
    _assert_nothing_left(tmp_path)


def test_a_zip_member_with_a_wrong_checksum(tmp_path):
    data = bytearray(zip_of({"a": b"hello " * 100}))
    data[data.index(b"PK\x01\x02") + 16] ^= 1
    with pytest.raises(InputError, match=r"not a complete zip, tar or tar\.gz file"):
        _unpack(tmp_path, bytes(data))
    _assert_nothing_left(tmp_path)


def _announcing(size: int, kind: bytes, *, packed: bool = False, body: bytes = b"") -> bytes:
    """A tar file whose only header announces `size` bytes, of which only `body` follows."""
    info = tarfile.TarInfo("member")
    info.type, info.size = kind, size
    data = info.tobuf(tarfile.GNU_FORMAT) + body
    return gzip.compress(data, compresslevel=1) if packed else data


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK, tarfile.SOLARIS_XHDTYPE,
    ],
)  # fmt: skip
def test_a_header_that_announces_a_gigabyte(tmp_path, kind, packed):
    """Of a file, or of another header: neither is believed, and neither takes memory."""
    data = _announcing(1 << 30, kind, packed=packed, body=b"only a little")
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            _unpack(tmp_path, data)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    _assert_nothing_left(tmp_path)


def test_a_header_that_really_has_many_megabytes(tmp_path):
    body = bytes(100 << 20)
    data = _announcing(len(body), tarfile.XHDTYPE, packed=True, body=body)
    assert len(data) < 1 << 20
    with pytest.raises(HostileArchive, match="has a header of 104857600 bytes"):
        _unpack(tmp_path, data)
    _assert_nothing_left(tmp_path)


def test_headers_without_end(tmp_path):
    data = b"".join(_announcing(512, tarfile.XGLTYPE, body=bytes(512)) for _ in range(5000))
    with pytest.raises(InputError, match="is not a complete zip, tar"):
        _unpack(tmp_path, data)
    _assert_nothing_left(tmp_path)


@pytest.mark.parametrize("size", [1 << 33, 1 << 50])
def test_an_announced_size_beyond_the_limit_is_not_even_begun(tmp_path, size):
    with pytest.raises(HostileArchive, match="unpacks to more than 64 MB"):
        _unpack(tmp_path, _announcing(size, tarfile.REGTYPE, packed=True))
    _assert_nothing_left(tmp_path)


def test_a_small_archive_does_not_unpack_to_gigabytes(tmp_path):
    """With the usual limits: a hundred times its own size, and 64 MB in any case."""
    for make in (tar_of, zip_of):
        with pytest.raises(HostileArchive, match="unpacks to more than 64 MB"):
            _unpack(tmp_path, make({"zeros": bytes(70 << 20)}))
        _assert_nothing_left(tmp_path)


def test_files_with_holes(tmp_path):
    """GNU's sparse files: a few bytes that stand for a terabyte of zeros."""
    info = tarfile.TarInfo("sparse")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[483:495] = b"%011o " % (1 << 33 >> 1)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(HostileArchive, match="has a sparse file 'sparse'"):
        _unpack(tmp_path, bytes(header) + bytes(1024))
    _assert_nothing_left(tmp_path)


def test_an_unknown_compression(tmp_path):
    data = bytearray(zip_of({"a": b"hello"}))
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = data.index(signature) + offset
        data[at : at + 2] = (99).to_bytes(2, "little")
    with pytest.raises(InputError, match="compression"):
        _unpack(tmp_path, bytes(data))
    _assert_nothing_left(tmp_path)


def test_a_full_disk(small_disk, tmp_path):
    (tmp_path / "archive").write_bytes(tar_of({"a": bytes(3 << 20)}))
    disk = small_disk("1m")
    with pytest.raises(InputError, match=r"no space left on the disk .*rerun the same command"):
        unpack(tmp_path / "archive", disk / "out")
    assert list(disk.iterdir()) == []
    small_disk("8m")
    unpack(tmp_path / "archive", disk / "out")
    assert (disk / "out" / "a").stat().st_size == 3 << 20


def test_a_missing_archive(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        unpack(tmp_path / "none", tmp_path / "out")


@given(name=st.text(min_size=1, max_size=20))
def test_no_name_leads_out(name, tmp_path_factory):
    """Whatever a member is called, nothing appears beside the folder."""
    root = tmp_path_factory.mktemp("any")
    try:
        data = tar_of({name: b"x"}, "w")
    except (ValueError, UnicodeError):
        return  # no archive can hold such a name
    (root / "archive").write_bytes(data)
    try:
        unpack(root / "archive", root / "out")
    except InputError:
        assert [path.name for path in root.iterdir()] == ["archive"]
        return
    assert sorted(path.name for path in root.iterdir()) == ["archive", "out"]
    assert sum(path.is_file() for path in (root / "out").rglob("*")) <= 1
