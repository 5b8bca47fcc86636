# What a user does on a mount whose key makes nobody of root. Arguments: what to do, where, the user, its further groups.
import errno
import fcntl
import mmap
import os
import sys

BIG = bytes(range(256)) * 4096


def refused(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        assert error.errno in (errno.EACCES, errno.EPERM), error
        return
    raise AssertionError(f"{call} {arguments} was permitted")


def write(path, data, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    handle = os.open(path, flags, 0o600)
    try:
        assert os.write(handle, data) == len(data)
    finally:
        os.close(handle)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def works():
    os.mkdir("own", 0o700)
    os.chdir("own")
    write("small", b"text")
    write("small", b" more", os.O_WRONLY | os.O_APPEND)
    assert read("small") == b"text more"
    write("big", BIG)
    assert read("big") == BIG
    with open("big", "r+b") as file:
        file.seek(5000)
        file.write(b"part")
        file.flush()
        os.fsync(file.fileno())
        assert os.lseek(file.fileno(), 0, os.SEEK_DATA) == 0
    assert read("big")[4999:5005] == BIG[4999:5000] + b"part" + BIG[5004:5005]
    with open("big", "r+b") as file, mmap.mmap(file.fileno(), 4096) as pages:
        pages[:4] = b"page"
        pages.flush()
    with open("room", "w+b") as file:
        os.posix_fallocate(file.fileno(), 0, 100_000)
        os.ftruncate(file.fileno(), 70_000)
    assert os.stat("room").st_size == 70_000
    for number in range(300):
        write(f"many-{number}", b"x")
    assert len(os.listdir(".")) == 303
    assert sum(entry.stat().st_size for entry in os.scandir(".")) == 300 + 9 + len(BIG) + 70_000
    os.fsync(os.open(".", os.O_RDONLY))


def locks():
    with open("own/small", "r+b") as file, open("own/small", "rb") as reading:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 2)
        fcntl.lockf(file, fcntl.LOCK_UN)
        fcntl.lockf(reading, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(reading, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            raise AssertionError("two have it")
    # Nobody is told by whom a directory was opened, so of one that has not to be everybody's it depends on the key.
    handle = os.open("open", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)


def reads():
    os.chdir("own")
    assert read("small") == b"text more"
    assert read("big") == b"page" + BIG[4:5000] + b"part" + BIG[5004:]
    assert len(os.listdir(".")) == 303


# As on any file system, the right is that of the open.
def holds():
    os.chdir("own")
    write("held", BIG)
    reading, writing = os.open("held", os.O_RDONLY), os.open("held", os.O_WRONLY)
    appending, listing = os.open("held", os.O_WRONLY | os.O_APPEND), os.open(".", os.O_RDONLY)
    os.fchmod(reading, 0)
    os.chmod(".", 0o100)
    refused(os.open, "held", os.O_RDONLY)
    refused(os.listdir, ".")
    os.posix_fadvise(reading, 0, 0, os.POSIX_FADV_DONTNEED)
    assert os.pread(reading, len(BIG), 0) == BIG
    os.pwrite(writing, b"held", 0)
    os.write(appending, b"end")
    os.fsync(writing)
    os.ftruncate(writing, len(BIG) + 1)
    assert os.pread(reading, len(BIG) + 9, 0) == b"held" + BIG[4:] + b"e"
    assert len(os.listdir(listing)) == 304
    os.chmod(".", 0o700)


# Of the group of the directory and its files by a supplementary group.
def shares():
    os.chdir("shared")
    assert read("file") == b"text"
    write("file", b" more", os.O_WRONLY | os.O_APPEND)
    write("mine", BIG)
    assert sorted(os.listdir(".")) == ["file", "mine"]
    assert read("mine") == BIG


def may_not():
    refused(os.listdir, "own")
    refused(os.listdir, "shared")
    refused(os.open, "own/small", os.O_RDONLY)
    refused(os.open, "own/small", os.O_WRONLY)
    refused(os.open, "own/new", os.O_WRONLY | os.O_CREAT, 0o600)
    refused(os.mkdir, "own/new")
    refused(os.unlink, "own/small")
    refused(os.rename, "own/small", "own/other")
    refused(os.link, "own/small", "open/link")
    refused(os.chmod, "own/small", 0o777)
    refused(os.truncate, "own/small", 0)


user = int(sys.argv[3])
os.setgroups([int(group) for group in sys.argv[4:]])
os.setgid(user)
os.setuid(user)
os.chdir(sys.argv[2])
globals()[sys.argv[1]]()
