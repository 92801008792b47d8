# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's kernels: which there are, and guests of them.

tests/guests/kernels is the table.  Packages come from Debian's archive; what
cannot be had is a reason to skip a test.
"""

import collections
import ctypes
import functools
import hashlib
import lzma
import os
import re
import shutil
import struct
import subprocess

import guest
import machine
import qemu

TABLE = os.path.join(qemu.TOP, 'tests', 'guests', 'kernels')
SCRIPTS = os.path.join(qemu.TOP, 'scripts')
# Those of which the archive has the newest kernels
NEWEST_SUITES = ('trixie-backports', 'forky', 'sid', 'experimental')

Kernel = collections.namedtuple('Kernel', 'name suite version pinned')


class Missing(Exception):
    """A package cannot be had; the message says why."""


@functools.cache
def table():
    """{name: Kernel}, in the order of the table"""
    kernels = {}
    with open(TABLE, encoding='ascii') as f:
        for line in f:
            words = line.partition('#')[0].split()
            if words:
                kernels[words[0]] = Kernel(*words, *[None] * (4 - len(words)))
    return kernels


def arch(kernel):
    return 'i386' if '686' in kernel.version else 'amd64'


def _script(name, *args):
    result = subprocess.run([os.path.join(SCRIPTS, name), *args],
                            capture_output=True, text=True, check=False,
                            stdin=subprocess.DEVNULL)
    if result.returncode:
        said = result.stderr.strip().splitlines() or ['it cannot be fetched']
        raise Missing(said[-1])
    return result.stdout.split()


def fetch(suite, *names, architecture='amd64'):
    """The paths of packages of a suite; see scripts/fetch-package."""
    return _script('fetch-package', '--arch', architecture, suite, *names)


def packages(kernel):
    """The paths of a Kernel's packages"""
    if kernel.pinned:
        try:
            return _script('fetch', kernel.pinned)
        except Missing:
            # Debian replaces kernels by newer ones.
            pass
    # Since 6.19 linux-image is empty: see scripts/unpack-kernel.
    name = _script('fetch-package', '--list', '--arch', arch(kernel),
                   kernel.suite, f'linux-image-{kernel.version}')[0]
    version = re.escape(name.removeprefix('linux-image-'))
    # The archive keeps the modules of old series for less time.
    for names in ([f'linux-binary-{version}', f'linux-modules-{version}'],
                  [f'linux-binary-{version}']):
        try:
            return fetch(kernel.suite, *names, architecture=arch(kernel))
        except Missing:
            pass
    return fetch(kernel.suite, re.escape(name), architecture=arch(kernel))


def newest():
    """The newest kernel for clouds, which are small, that the archive has"""
    found = []
    for suite in NEWEST_SUITES:
        try:
            name, version = _script(
                'fetch-package', '--list', suite,
                r'linux-image-[0-9][^ ]*[0-9]-cloud-amd64')
        except Missing:
            continue
        found.append((version, suite, name))
    if not found:
        raise Missing('the archive has no kernel')

    def compare(a, b):
        return -1 if subprocess.run(['dpkg', '--compare-versions', a[0], 'lt',
                                     b[0]], check=False).returncode == 0 else 1

    _, suite, name = max(found, key=functools.cmp_to_key(compare))
    return Kernel('newest', suite,
                  re.escape(name.removeprefix('linux-image-')), None)


def unpacked(kernel):
    """The folder with a Kernel's vmlinuz and, below modules, its modules"""
    debs = packages(kernel)
    key = hashlib.sha256()
    for deb in debs:
        with open(deb, 'rb') as f:
            key.update(hashlib.file_digest(f, 'sha256').digest())

    def make(path):
        subprocess.run([os.path.join(SCRIPTS, 'unpack-kernel'), path, *debs],
                       check=True)

    return machine.cached('kernel', key.hexdigest()[:16], make)


def release(vmlinuz):
    """What uname -r says of the kernel in a bzImage"""
    with open(vmlinuz, 'rb') as f:
        head = f.read(65536)
    # Documentation/arch/x86/boot.rst: kernel_version
    at = 512 + struct.unpack_from('<H', head, 0x20e)[0]
    return head[at:head.index(b' ', at)].decode('ascii')


def _plain(path):
    """What is in a module, which may be compressed"""
    with open(path, 'rb') as f:
        data = f.read()
    if path.endswith('.xz'):
        return lzma.decompress(data)
    if path.endswith('.zst'):
        return _unzstd(data)
    return data


def _unzstd(data):
    library = ctypes.CDLL('libzstd.so.1')
    size = library.ZSTD_getFrameContentSize
    size.restype = ctypes.c_ulonglong
    n = size(data, ctypes.c_size_t(len(data)))
    plain = ctypes.create_string_buffer(n)
    decompress = library.ZSTD_decompress
    decompress.restype = ctypes.c_size_t
    if decompress(plain, ctypes.c_size_t(n), data,
                  ctypes.c_size_t(len(data))) != n:
        raise qemu.QemuError('a module is not compressed with zstd')
    return plain.raw


def _name(path):
    return os.path.basename(path).partition('.ko')[0].replace('-', '_')


def _paths(folder):
    """{name: path} of the modules of an unpacked kernel"""
    return {_name(name): os.path.join(path, name)
            for path, _, files in os.walk(os.path.join(folder, 'modules'))
            for name in files}


def module(folder, name):
    """What is in a module of an unpacked kernel"""
    return _plain(_paths(folder)[name.replace('-', '_')])


def modules(kernel):
    """The names of the modules of a Kernel"""
    return set(_paths(unpacked(kernel)))


def add_modules(folder, root, names):
    """Put modules, and those that they need, below root, where modprobe finds
    them; names that the kernel has no module for are returned."""
    version = release(os.path.join(folder, 'vmlinuz'))
    paths = _paths(folder)
    target = os.path.join(root, 'lib', 'modules', version)
    os.makedirs(target)
    depends = {}
    missing = []

    def add(name):
        if name in depends:
            return
        data = _plain(paths[name])
        words = re.search(rb'\0depends=([^\0]*)\0', data)[1].decode()
        depends[name] = [w.replace('-', '_') for w in words.split(',') if w]
        with open(os.path.join(target, f'{name}.ko'), 'wb') as f:
            f.write(data)
        for needed in depends[name]:
            add(needed)

    def closure(name):
        """Each one before those that it needs: modprobe begins with the last
        one"""
        result = []
        for needed in depends[name]:
            result += [needed, *closure(needed)]
        return dict.fromkeys(reversed(result))

    for name in names:
        if name.replace('-', '_') in paths:
            add(name.replace('-', '_'))
        else:
            missing.append(name)
    with open(os.path.join(target, 'modules.dep'), 'w',
              encoding='ascii') as f:
        for name in depends:
            f.write(f'{name}.ko:' + ''.join(
                f' {needed}.ko' for needed in reversed(closure(name))) +
                '\n')
    return missing


@functools.cache
def busybox(architecture):
    """The path of a busybox for the guest"""
    if architecture == 'amd64':
        return '/bin/busybox'
    deb, = fetch(machine.release(), 'busybox-static',
                 architecture=architecture)

    def make(path):
        subprocess.run(['dpkg-deb', '-x', deb, path], check=True)

    with open(deb, 'rb') as f:
        key = hashlib.file_digest(f, 'sha256').hexdigest()[:16]
    folder = machine.cached('unpacked', key, make)
    return os.path.join(folder, 'bin', 'busybox')


@functools.cache
def programs(architecture):
    """The path of the program of tests/guests/programs"""
    folder = os.path.join(qemu.TOP, 'tests', 'guests', 'programs')
    sources = sorted(os.path.join(folder, name)
                     for name in os.listdir(folder))
    command = ['gcc', '-m32' if architecture == 'i386' else '-m64',
               '-std=gnu11', '-D_GNU_SOURCE', '-D_FILE_OFFSET_BITS=64', '-O2',
               '-Wall', '-Wextra', '-Werror', '-static', '-no-pie', '-pthread']
    key = hashlib.sha256(repr(command).encode())
    for path in sources:
        with open(path, 'rb') as f:
            key.update(f.read())

    def make(path):
        os.mkdir(path)
        result = subprocess.run(
            [*command, '-o', os.path.join(path, 'programs'),
             *(s for s in sources if s.endswith('.c'))],
            capture_output=True, text=True, check=False)
        if result.returncode:
            shutil.rmtree(path)
            raise Missing(f'gcc builds no programs for {architecture}: '
                          f'{result.stderr.strip().splitlines()[-1]}')

    return os.path.join(machine.cached('programs', key.hexdigest()[:16], make),
                        'programs')


def has_modules(kernel):
    """Has the archive the modules of a Kernel?"""
    return os.listdir(os.path.join(unpacked(kernel), 'modules')) != []


def make_initrd(kernel, path, modules=(), files=None):
    """Write the initramfs of tests/guests for a Kernel; files are others that
    are in it, {path there: path here}.  Returns the folder of the kernel."""
    folder = unpacked(kernel)
    root = f'{path}.root'
    shutil.rmtree(root, ignore_errors=True)
    for name in ('bin', 'dev', 'proc', 'sys', 'tmp', 'programs'):
        os.makedirs(os.path.join(root, name))
    shutil.copy(busybox(arch(kernel)), os.path.join(root, 'bin', 'busybox'))
    os.symlink('busybox', os.path.join(root, 'bin', 'sh'))
    shutil.copy(os.path.join(qemu.TOP, 'tests', 'guests', 'init'),
                os.path.join(root, 'init'))
    shutil.copy(programs(arch(kernel)), os.path.join(root, 'programs'))
    missing = add_modules(folder, root, modules)
    if missing:
        raise Missing(f'{release(os.path.join(folder, "vmlinuz"))} has no '
                      f'module {", ".join(missing)}')
    for name, source in (files or {}).items():
        os.makedirs(os.path.dirname(root + name), exist_ok=True)
        shutil.copy(source, root + name)
    guest.pack(root, path)
    shutil.rmtree(root)
    return folder
