# SPDX-License-Identifier: GPL-2.0-or-later
"""The Linux guest of tests/guest."""

import ctypes
import functools
import os
import struct
import subprocess
import time

import qemu


@functools.cache
def folder():
    """The folder with the guest's vmlinuz and initrd; built if needed."""
    build = os.path.join(qemu.TOP, 'tests', 'guest', 'build')
    return subprocess.run([build], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


# Linux only spends time with these: keys, self tests of entropy, and tables
# for its own tracers, which are long loops over names.
NO_INITCALLS = 'initcall_blacklist=' + ','.join((
    'load_system_certificate_list', 'jent_mod_init', 'bpf_tcp_ca_kfunc_init',
    'init_kprobe_trace', 'bpf_dummy_struct_ops_init'))
# The same, the tables of its tracers, and its self tests of ciphers
QUICK = ('cryptomgr.notests=1',
         NO_INITCALLS + ',trace_eval_init,ftrace_check_for_weak_functions')
NAMED_S = 3


def vmlinux():
    """The kernel as the ELF file inside vmlinuz; QEMU boots it by PVH."""
    path = os.path.join(folder(), 'vmlinux')
    if not os.path.exists(path):
        new = f'{path}.{os.getpid()}'
        unpack_kernel(os.path.join(folder(), 'vmlinuz'), new)
        os.rename(new, path)
    return path


def args(*words, memory='256', whole=False, devices=False):
    """QEMU's arguments to boot it; words go to the kernel's command line.

    If devices, it has drivers and the programs that need them.

    If whole, the boot is one as on a machine: the kernel unpacks itself, to a
    random address, and does all that it does by default.  This takes twice
    the CPU time.
    """
    path = folder()
    # On a busy host a guest may see no tick of its timer while it counts for
    # some, and take the timer to be broken.
    return ['-m', memory, '-no-reboot',
            '-kernel', os.path.join(path, 'vmlinuz') if whole else vmlinux(),
            '-initrd', os.path.join(path, 'initrd-devices' if devices
                                    else 'initrd'),
            '-append', ' '.join(('console=ttyS0', 'quiet', 'panic=-1',
                                 'no_timer_check',
                                 *(() if whole else QUICK), *words))]


def go_on_named(vm, timeout):
    """Let a guest that waits (bt.wait=1) continue once an agent had the time
    to find its kernel, and to have its tasks named."""
    vm.wait_serial('^BT: ready', timeout)
    time.sleep(NAMED_S)
    vm.send_serial('\n')


def unpack_kernel(vmlinuz, vmlinux):
    """Write the ELF file inside a bzImage, which QEMU boots by PVH."""
    with open(vmlinuz, 'rb') as f:
        image = f.read()
    # Documentation/arch/x86/boot.rst: the protected-mode code starts after
    # the setup sectors, the compressed kernel payload_offset into that.
    if image[0x202:0x206] != b'HdrS':
        raise qemu.QemuError(f'{vmlinuz} is not a bzImage')
    sectors = image[0x1f1] or 4
    offset, length = struct.unpack_from('<II', image, 0x248)
    start = (sectors + 1) * 512 + offset
    # The last four bytes are the size of the unpacked kernel.
    payload = image[start:start + length - 4]
    size, = struct.unpack_from('<I', image, start + length - 4)
    if payload[:4] != b'\x28\xb5\x2f\xfd':
        raise qemu.QemuError(f'{vmlinuz} is not compressed with zstd')
    # Not the command zstd: the library is there wherever backtrail is.
    kernel = ctypes.create_string_buffer(size)
    decompress = ctypes.CDLL('libzstd.so.1').ZSTD_decompress
    decompress.restype = ctypes.c_size_t
    decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t,
                           ctypes.c_char_p, ctypes.c_size_t]
    if decompress(kernel, size, payload, len(payload)) != size or \
            kernel.raw[:4] != b'\x7fELF':
        raise qemu.QemuError(f'{vmlinuz} does not unpack to an ELF file')
    with open(vmlinux, 'wb') as f:
        f.write(kernel)


def pack(root, initrd):
    """Write the initramfs of what is in a folder; the same each time, with all
    files of one date."""
    with open(initrd, 'wb') as f:
        subprocess.run('find . -exec touch -h -d @1000000000 {} + && '
                       'find . | LC_ALL=C sort | '
                       'cpio --quiet --reproducible -R 0:0 -H newc -o',
                       shell=True, cwd=root, stdout=f, check=True)


def unpack(root):
    """Unpack the guest's files into a new folder."""
    os.mkdir(root)
    subprocess.run(['cpio', '--quiet', '-id', '--no-absolute-filenames', '-I',
                    os.path.join(folder(), 'initrd')], cwd=root, check=True)
